"""The store that a URL names.

    /data/servo, data/servo, file:///data/servo        a folder (`LocalStore`)
    memory://name                                      memory of this process, shared by name
    s3://bucket/prefix?region=…&endpoint=…&allow_http=true   a bucket (`S3Store`)

Credentials do not belong in a URL: URLs end up in logs, in `ps` and in tickets. Opening a store
does no network I/O, and only the library of the named store is imported.
"""

import threading
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from servo.errors import Invalid
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore
from servo.ports.store_url import folder_of_path, folder_of_url, is_url, split_url
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


def store_from_url(url: str, *, clock: Clock) -> ObjectStore:
    """Open the store that `url` names."""
    if not is_url(url):
        return LocalStore(folder_of_path(url))
    parts = split_url(url)
    match parts.scheme:
        case "file":
            return LocalStore(folder_of_url(parts))
        case "memory":
            return _memory(parts, clock)
        case _:
            return _s3(parts, clock)


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
    if not _is_server(url):
        raise Invalid(
            "the endpoint is not the address of a server",
            remedy="write endpoint=https://host:port, without credentials",
        )
    return url


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # refuses what is no number
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc) and "@" not in parts.netloc


def _boolean(name: str, value: str) -> bool:
    if value not in _BOOLEANS:
        raise Invalid(f"{name} is neither true nor false", remedy=f"write {name}=true")
    return _BOOLEANS[value]
