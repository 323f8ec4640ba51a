"""The bytes of what was refused: in the entry and its row if they are few, stored if not.

They are kept as they came, because what could not be read cannot be written again in another form.
"""

from base64 import b64decode, b64encode
from hashlib import sha256

from servo.core.events.envelope import Encoding, Original

MAX_INLINE = 64 * 1024
"""How many bytes an entry and a row of `dead_letter` hold; more are stored in an object."""


def inbox_source(name: str) -> str:
    """How the object of this name in the inbox is called wherever it is the source of something."""
    return f"inbox:{name}"


def original_of(source: str, data: bytes) -> Original:
    """What an entry says about the bytes of an object."""
    encoding, text = _kept(data)
    digest = sha256(data).hexdigest()
    return Original(source=source, sha256=digest, size=len(data), encoding=encoding, data=text)


def original_bytes(encoding: Encoding, text: str) -> bytes | None:
    """The bytes that are kept with an original; None if they are stored."""
    if encoding is Encoding.STORED:
        return None
    return text.encode() if encoding is Encoding.TEXT else b64decode(text)


def _kept(data: bytes) -> tuple[Encoding, str]:
    if len(data) > MAX_INLINE:
        return Encoding.STORED, ""
    try:
        return Encoding.TEXT, data.decode()
    except UnicodeDecodeError:
        return Encoding.BASE64, b64encode(data).decode()
