"""Objects that say what their bytes must be: `{"sha256": H, "body": {...}}`.

H is the hash of the bytes of the body exactly as they stand. It is checked before anything inside
is parsed, so a flipped bit is found and never interpreted, and nothing but the seal surrounds the
body, so a longer object is found too.
"""

from hashlib import sha256

import msgspec

from servo.errors import Corrupt

# What msgspec raises for bytes that are not JSON, not UTF-8, malformed, or nested too deeply.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_PREFIX = b'{"sha256":"'
_MIDDLE = b'","body":'
_SEAL_BYTES = len(_PREFIX) + 64 + len(_MIDDLE) + 1


class _Sealed(msgspec.Struct):
    sha256: str
    body: msgspec.Raw


_decoder = msgspec.json.Decoder(_Sealed)


def seal(body: bytes) -> tuple[bytes, str]:
    """The object that holds `body`, and the hash of the body."""
    digest = sha256(body).hexdigest()
    return b"".join((_PREFIX, digest.encode(), _MIDDLE, body, b"}")), digest


def unseal(data: bytes, *, what: str, remedy: str) -> tuple[bytes, str]:
    """The body of an object and its hash; `Corrupt` with `remedy` if they do not match."""
    try:
        sealed = _decoder.decode(data)
    except UNREADABLE as error:
        raise damaged(what, f"it is not a sealed object: {error}", remedy=remedy) from None
    body = bytes(sealed.body)
    if sha256(body).hexdigest() != sealed.sha256 or len(data) != len(body) + _SEAL_BYTES:
        raise damaged(what, "its bytes do not match their hash", remedy=remedy)
    return body, sealed.sha256


def damaged(what: str, why: str, *, remedy: str) -> Corrupt:
    """The error that says that a stored object is not what was written."""
    return Corrupt(f"{what} is damaged: {why}", remedy=remedy)
