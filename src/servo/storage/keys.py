"""Which keys every store accepts.

A key is one or more segments joined by '/'. The rules are the same for every adapter and are
checked before any I/O, so that a key accepted by one store is accepted by all and none can leave
its root: no '.' or '..' segments, no empty segments, no backslash, no control characters, no '%'
(an escape that some layer might decode a second time), one spelling of each text (NFC), and
lengths that a file name, a bucket and an HTTP request line all carry.
"""

import re
import unicodedata
from collections.abc import Callable

from servo.errors import Invalid

MAX_KEY_BYTES = 900
MAX_SEGMENT_BYTES = 255

# Almost every key Servo makes is plain ASCII, and one match is all that it then costs.
_PLAIN = re.compile(r"(?:(?!\.\.?(?:/|\Z))[A-Za-z0-9_=,+@:~.-]+(?:/(?!\Z)|\Z))+")
_SHORT = 255

# XML, in which S3 lists keys, cannot carry these two.
_NONCHARACTERS = "\ufffe\uffff"

_Rule = tuple[Callable[[str], bool], str, str]

_RULES: tuple[_Rule, ...] = (
    (lambda key: not key, "is empty", "name the object"),
    (
        lambda key: any("\ud800" <= char <= "\udfff" for char in key),
        "holds half of a surrogate pair",
        "use text that UTF-8 can encode",
    ),
    (
        lambda key: any(unicodedata.category(char) == "Cc" for char in key),
        "holds a control character",
        "remove it or hash the name",
    ),
    (
        lambda key: any(char in _NONCHARACTERS for char in key),
        "holds a Unicode noncharacter",
        "remove U+FFFE and U+FFFF",
    ),
    (lambda key: "\\" in key, "holds a backslash", "separate segments with '/'"),
    (lambda key: "%" in key, "holds '%'", "hash or encode the name without percent-escapes"),
    (lambda key: key.startswith("/"), "starts with '/'", "make it relative to the store"),
    (lambda key: key.endswith("/"), "ends with '/'", "name an object, not a folder"),
    (lambda key: "//" in key, "holds an empty segment", "write one '/' between segments"),
    (
        lambda key: any(segment in {".", ".."} for segment in key.split("/")),
        "holds a '.' or '..' segment",
        "write the key without relative segments",
    ),
    (
        lambda key: not unicodedata.is_normalized("NFC", key),
        "is not in Unicode normal form C",
        "normalise it with NFC",
    ),
    (
        lambda key: len(key.encode()) > MAX_KEY_BYTES,
        f"is longer than {MAX_KEY_BYTES} bytes",
        "shorten it or hash its long part",
    ),
    (
        lambda key: any(len(part.encode()) > MAX_SEGMENT_BYTES for part in key.split("/")),
        f"holds a segment longer than {MAX_SEGMENT_BYTES} bytes",
        "shorten it or hash its long part",
    ),
)


def check_key(key: str) -> str:
    """Return `key`, or raise `Invalid` if no store accepts it."""
    if len(key) <= _SHORT and _PLAIN.fullmatch(key):
        return key
    for broken, complaint, remedy in _RULES:
        if broken(key):
            raise Invalid(f"the key {_shown(key)} {complaint}", remedy=remedy)
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix`: nothing, the beginning of a key, or a folder with its final '/'."""
    if prefix:
        check_key(prefix.removesuffix("/") if len(prefix) > 1 else prefix)
    return prefix


def is_key(name: str) -> bool:
    """Whether something found in a store can be an object of Servo's: not every name is a key."""
    try:
        check_key(name)
    except Invalid:
        return False
    return True


def folder_of(prefix: str) -> str:
    """The folder that every key beginning with `prefix` lies in, '' or with its final '/'."""
    return prefix[: prefix.rfind("/") + 1]


def _shown(key: str) -> str:
    """The key as it may be logged: escaped and not longer than a line."""
    text = ascii(key)
    return text if len(text) <= _SHORT else f"{text[:80]}... ({len(key)} characters)"
