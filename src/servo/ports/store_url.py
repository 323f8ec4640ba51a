"""What people write to name a store, checked before anything is opened.

The store of `--store`, of `$SERVO_STORE` and of a project file all pass through here, so that a
typing error is refused everywhere and never becomes the name of a new folder.
"""

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from servo.errors import Invalid

SCHEMES = ("file", "memory", "s3")
KNOWN = "file:///folder, memory://name, s3://bucket/prefix or a plain path"

# "s3:/bucket", "s3:bucket" and "s3//bucket" are typing errors, not folders.
_MISTYPED = re.compile(rf"[^/]*:(?:/|$)|(?:{'|'.join(SCHEMES)})(?::|//)", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether a store is written as a URL, and not as a path."""
    return "://" in text


def split_url(url: str) -> SplitResult:
    """The parts of a URL that can name a store."""
    try:
        parts = urlsplit(url)
        password = parts.username is not None or parts.password is not None or parts.port
    except ValueError:
        raise Invalid("the URL of the store is invalid", remedy=f"use {KNOWN}") from None
    if parts.scheme not in SCHEMES:
        raise Invalid(f"unknown kind of store: {parts.scheme!r}", remedy=f"use {KNOWN}")
    if password:  # not shown: it may be the secret itself
        raise Invalid(
            "the URL of the store contains credentials or a port",
            remedy="keep credentials in the environment and the server in ?endpoint=",
        )
    return parts


def folder_of_url(parts: SplitResult) -> Path:
    """The folder that a `file://` URL names."""
    if parts.netloc not in {"", "localhost"} or parts.query:
        raise Invalid(
            f"file://{parts.netloc} is not a folder of this machine",
            remedy="write three slashes: file:///folder",
        )
    return _path(unquote(parts.path))


def folder_of_path(text: str) -> Path:
    """The folder that a plain path names, with the home folder of a user for `~`."""
    if _MISTYPED.match(text):
        raise Invalid(f"{text!r} is neither a path nor a URL", remedy=f"use {KNOWN}")
    path = _path(text)
    try:
        return path.expanduser()
    except RuntimeError:
        raise Invalid(
            f"the home folder in {text!r} is unknown", remedy="write the path without '~'"
        ) from None


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise Invalid(
            "the path of the store is empty or contains a null character", remedy=f"use {KNOWN}"
        )
    return Path(text)
