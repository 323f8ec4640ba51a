"""The URL of a bucket in one spelling, with the server that it means.

Servers have names, numbers and proxies, so two URLs of one bucket can always differ; a lease
therefore names the lock of its holder (see `servo.workspace.leader_lock`). What can be told from
the text alone is made one here: processes then find each other at once.

The server may be named by the environment instead of the URL. It becomes part of the URL: two
processes with one URL and two environments mean two stores.
"""

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name the server, the one that counts first."""

_PORTS = {"http": 80, "https": 443}
_ALLOWED = {"1": "true", "true": "true"}
_NOT_ALLOWED = {"0", "false"}


def canonical_bucket(parts: SplitResult, environ: Mapping[str, str]) -> str:
    """The one spelling of the URL of a bucket; invalid parts are left for the store to refuse."""
    prefix = unquote(parts.path).strip("/")
    path = f"/{quote(prefix, safe='/!$&()*+,;=:@~')}" if prefix else ""
    # Of an option that is repeated, the last one counts.
    options = _options(dict(parse_qsl(parts.query, keep_blank_values=True)), environ)
    query = f"?{urlencode(sorted(options.items()))}" if options else ""
    return f"{parts.scheme}://{parts.netloc}{path}{query}"


def _options(given: dict[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    options = dict(given)
    if "endpoint" not in options and (server := _server(environ)):
        options["endpoint"] = server
    if "endpoint" in options:
        options["endpoint"] = _endpoint(options["endpoint"])
    allowed = options.pop("allow_http", "false")
    if allowed not in _NOT_ALLOWED:  # which is the default
        options["allow_http"] = _ALLOWED.get(allowed, allowed)
    return options


def _server(environ: Mapping[str, str]) -> str:
    """The server that the environment names; without credentials, which belong in no URL."""
    named = (environ.get(name, "") for name in ENDPOINTS)
    server = next((value for value in named if value), "")
    return "" if "@" in server else server


def _endpoint(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    if not parts.hostname or "@" in parts.netloc:
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is not None and port != _PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    return parts._replace(netloc=host, path=parts.path.rstrip("/")).geturl()
