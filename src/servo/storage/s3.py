"""`ObjectStore` in a bucket of S3 or of a server that speaks its protocol.

Create is a PUT with `If-None-Match: *`, replace_if one with `If-Match`: the server decides races.
Conditional writes and deletes are sent once. The library would otherwise repeat them, meet its own
first try and report that somebody else was first. Reads are repeated, and so is `put`, whose last
writer wins in any case.

The version is the entity tag, which is a hash of the bytes: writing equal bytes again does not
change it. `modified` in a listing or a read is the server's; in the answer to a write it is this
process's clock, since the server does not say.

Credentials come from the options or the environment and appear in no message.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

from obstore.store import S3Store as Client

from servo.errors import Invalid, NotFound
from servo.ports.clock import Clock
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.keys import check_key, check_prefix, folder_of, is_key
from servo.storage.requests import check_limit, check_range
from servo.storage.s3_errors import FAILURES, is_beyond_the_end, translated
from servo.storage.s3_listing import first_in_order, start_before

if TYPE_CHECKING:
    from obstore import ObjectMeta as Described
    from obstore import PutMode
    from obstore.store import ClientConfig, RetryConfig, S3Config

_CONFIG = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
_PAGE = 1000
_TIMEOUT = timedelta(seconds=30)


class S3Options(TypedDict, total=False):
    """How to reach the bucket; what is left out is taken from the environment."""

    endpoint: str
    region: str
    allow_http: bool
    timeout: timedelta
    access_key_id: str
    secret_access_key: str
    session_token: str


class S3Store:
    """Objects in `bucket`, all under `prefix`."""

    def __init__(
        self, bucket: str, prefix: str = "", *, clock: Clock, **options: Unpack[S3Options]
    ) -> None:
        self._prefix = f"{check_key(prefix)}/" if prefix else ""
        self._bucket = bucket
        self._clock = clock
        once: RetryConfig = {"max_retries": 0}
        patient: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
        self._repeating = _client(bucket, options, patient)
        self._once = _client(bucket, options, once)

    def get(self, key: str) -> Blob:
        with self._asking("read", check_key(key)):
            answer = self._repeating.get(self._prefix + key)
            data = answer.bytes().to_bytes()
        return Blob(data=data, meta=self._meta(answer.meta))

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        check_range(start=start, length=length)
        with self._asking("read", check_key(key)):
            if length == 0:  # no such range exists in HTTP; the object still has to
                self._repeating.head(self._prefix + key)
                return b""
            try:
                part = self._repeating.get_range(self._prefix + key, start=start, length=length)
            except FAILURES as error:
                if is_beyond_the_end(error):
                    return b""
                raise
            return part.to_bytes()

    def put(self, key: str, data: bytes) -> ObjectMeta:
        return self._put(self._repeating, key, data, mode="overwrite")

    def create(self, key: str, data: bytes) -> ObjectMeta:
        return self._put(self._once, key, data, mode="create")

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        # A "version" of None beside the tag is an error to the library, so there is none.
        return self._put(self._once, key, data, mode={"e_tag": version})

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        check_prefix(prefix)
        check_prefix(after)
        check_limit(limit)
        if after > prefix and not after.startswith(prefix):
            return []
        with self._asking("list", prefix):
            found = self._from(start_before(prefix, after), folder_of(prefix))
            return first_in_order(found, prefix, after=after, limit=limit)

    def delete(self, key: str) -> None:
        try:
            with self._asking("delete", check_key(key), writing=True):
                self._once.delete(self._prefix + key)
        except NotFound:
            return

    def _put(self, client: Client, key: str, data: bytes, *, mode: "PutMode") -> ObjectMeta:
        with self._asking("write", check_key(key), writing=True):
            answer = client.put(self._prefix + key, data, mode=mode, use_multipart=False)
        return ObjectMeta(
            key=key, size=len(data), modified=self._clock.now(), version=answer["e_tag"] or ""
        )

    def _from(self, start: str, folder: str) -> Iterator[ObjectMeta]:
        """What the server lists from `start` on, as it comes."""
        pages = self._repeating.list(  # pyright: ignore[reportUnknownMemberType] - one of its overloads names what is not installed
            self._prefix + folder or None,
            offset=self._prefix + start if start else None,
            chunk_size=_PAGE,
        )
        for page in pages:
            for described in page:
                if is_key(described["path"].removeprefix(self._prefix)):
                    yield self._meta(described)

    def _meta(self, described: "Described") -> ObjectMeta:
        return ObjectMeta(
            key=described["path"].removeprefix(self._prefix),
            size=described["size"],
            modified=described["last_modified"],
            version=described["e_tag"] or "",
        )

    @contextmanager
    def _asking(self, verb: str, key: str, *, writing: bool = False) -> Generator[None]:
        try:
            yield
        except FAILURES as error:
            doing = f"{verb} {key!r} in the bucket {self._bucket!r}"
            raise translated(error, doing, writing=writing) from None


def _client(bucket: str, options: S3Options, retries: "RetryConfig") -> Client:
    config: S3Config = {"disable_bulk_delete": True}
    for name in _CONFIG:
        if (value := options.get(name)) is not None:
            config[name] = value
    if "endpoint" in config:
        # The library prefers this variable of the environment even to an endpoint it is given.
        config["aws_endpoint_url_s3"] = config["endpoint"]
    http: ClientConfig = {
        "allow_http": options.get("allow_http", False),
        "timeout": options.get("timeout", _TIMEOUT),
    }
    try:
        return Client(bucket, config=config, client_options=http, retry_config=retries)
    except FAILURES:
        raise Invalid(
            f"the options for the bucket {bucket!r} are invalid",
            remedy="check endpoint, region and the AWS_ variables of the environment",
        ) from None
