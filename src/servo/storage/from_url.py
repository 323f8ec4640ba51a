"""The store that a URL names.

    /data/servo, data/servo, file:///data/servo        a folder (`LocalStore`)
    memory://name                                      memory of this process, shared by name
    s3://bucket/prefix?region=…&endpoint=…&allow_http=true   a bucket (`S3Store`)

Credentials do not belong in a URL: URLs end up in logs, in `ps` and in tickets. Opening a store
does no network I/O, and only the library of the named store is imported.
"""

import threading
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from servo.errors import Invalid
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore

_KNOWN = "file:///folder, memory://name, s3://bucket/prefix or a plain path"
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


def store_from_url(url: str, *, clock: Clock) -> ObjectStore:
    """Open the store that `url` names."""
    if "://" not in url:
        return LocalStore(_plain_path(url))
    parts = _split(url)
    match parts.scheme:
        case "file":
            return _local(parts)
        case "memory":
            return _memory(parts, clock)
        case "s3":
            return _s3(parts, clock)
        case scheme:
            raise Invalid(f"unknown kind of store: {scheme!r}", remedy=f"use {_KNOWN}")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        password = parts.username is not None or parts.password is not None or parts.port
    except ValueError:
        raise Invalid("the URL of the store is invalid", remedy=f"use {_KNOWN}") from None
    if password:  # not shown: it may be the secret itself
        raise Invalid(
            "the URL of the store contains credentials or a port",
            remedy="keep credentials in the environment and the server in ?endpoint=",
        )
    return parts


def _local(parts: SplitResult) -> LocalStore:
    if parts.netloc not in {"", "localhost"} or parts.query:
        raise Invalid(
            f"file://{parts.netloc} is not a folder of this machine",
            remedy="write three slashes: file:///folder",
        )
    return LocalStore(_path(unquote(parts.path)))


def _plain_path(text: str) -> Path:
    # "s3:/bucket" is a typing error, not a folder.
    if text.partition("/")[0].endswith(":"):
        raise Invalid(f"{text!r} is neither a path nor a URL", remedy=f"use {_KNOWN}")
    return _path(text).expanduser()


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise Invalid(
            "the path of the store is empty or contains a null character", remedy=f"use {_KNOWN}"
        )
    return Path(text)


def _memory(parts: SplitResult, clock: Clock) -> MemoryStore:
    if parts.path.strip("/") or parts.query:
        raise Invalid("the URL of a memory store takes only a name", remedy="use memory://name")
    with _shared_lock:
        return _shared.setdefault(parts.netloc, MemoryStore(clock))


def _s3(parts: SplitResult, clock: Clock) -> ObjectStore:
    from servo.storage.s3 import S3Options, S3Store  # noqa: PLC0415 - a folder needs no HTTP client

    options: S3Options = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        match name:
            case "endpoint":
                options[name] = _endpoint(value)
            case "region":
                options[name] = value
            case "allow_http":
                options[name] = _boolean(name, value)
            case _:
                raise Invalid(
                    f"an S3 URL has no option {name!r}",
                    remedy="use endpoint, region or allow_http, and the environment for secrets",
                )
    if not parts.netloc:
        raise Invalid("the URL has no bucket", remedy="use s3://bucket/prefix")
    return S3Store(parts.netloc, unquote(parts.path).strip("/"), clock=clock, **options)


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
        raise Invalid(
            "the endpoint is not the address of a server",
            remedy="write endpoint=https://host:port, without credentials",
        )
    return url


def _boolean(name: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise Invalid(f"{name} is neither true nor false", remedy=f"write {name}=true")
    return _BOOLEANS[value]
