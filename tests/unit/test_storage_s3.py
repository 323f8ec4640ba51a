"""What the S3 adapter makes of a server's answers, with a server that says what it is told.

The same adapter against a server that stores things is tested with the contract.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servo.errors import Conflict, Invalid, NotFound, ServoError, Unavailable
from servo.storage.s3 import S3Options, S3Store

SECRET = "hunter2secret"
KEY_ID = "AKIDEXAMPLE"

Answer = tuple[int, bytes, dict[str, str]]


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class ScriptedServer:
    """Answers with the scripted answers in turn, then with the last one for ever."""

    def __init__(self, *answers: Answer | None) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        script = list(answers)
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                requests.append((self.command, self.path, headers))
                now = script.pop(0) if len(script) > 1 else script[0]
                if now is None:  # hang up: the outcome stays unknown
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, body, more = now
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815 - named by the library

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                del code, size  # no line on stderr for each

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        serving = threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True)
        serving.start()

    def store(self, **options: object) -> S3Store:
        given = S3Options(
            endpoint=f"http://127.0.0.1:{self._server.server_port}",
            region="us-east-1",
            allow_http=True,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            timeout=timedelta(seconds=5),
        )
        given.update(options)  # pyright: ignore[reportCallIssue, reportArgumentType] - options by name
        return S3Store("bucket", "pre", clock=FixedClock(), **given)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(*answers: Answer | None) -> ScriptedServer:
        servers.append(ScriptedServer(*answers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


Serve = Callable[..., ScriptedServer]
Call = Callable[[S3Store], object]


def failed(status: int, code: str) -> Answer:
    return status, f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode(), {}


OK: Answer = (200, b"", {"etag": '"tag"'})


def create(store: S3Store) -> object:
    return store.create("k", b"x")


def replace(store: S3Store) -> object:
    return store.replace_if("k", b"x", version='"old"')


def put(store: S3Store) -> object:
    return store.put("k", b"x")


def get(store: S3Store) -> object:
    return store.get("k")


def listing(store: S3Store) -> object:
    return store.list_after("f/")


def delete(store: S3Store) -> object:
    return store.delete("k")


def refusal(server: ScriptedServer, call: Call) -> ServoError:
    with pytest.raises(ServoError) as refused:
        call(server.store())
    return refused.value


@pytest.mark.parametrize("call", [create, replace])
def test_412_says_that_somebody_else_was_first(serve: Serve, call: Call) -> None:
    error = refusal(serve(failed(412, "PreconditionFailed")), call)

    assert type(error) is Conflict


@pytest.mark.parametrize("call", [create, replace])
@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_409_says_that_nothing_was_written_and_to_try_again(
    serve: Serve, call: Call, code: str
) -> None:
    error = refusal(serve(failed(409, code)), call)

    assert isinstance(error, Unavailable)
    assert not error.may_have_applied


def test_replacing_what_is_not_there_is_a_conflict(serve: Serve) -> None:
    assert type(refusal(serve(failed(404, "NoSuchKey")), replace)) is Conflict


@pytest.mark.parametrize("call", [create, replace, delete])
@pytest.mark.parametrize(
    "answer",
    [
        failed(500, "InternalError"),
        failed(503, "SlowDown"),
        failed(429, "TooManyRequests"),
        failed(400, "RequestTimeout"),
        None,
    ],
)
def test_a_write_of_unknown_outcome_is_sent_once_and_says_so(
    serve: Serve, call: Call, answer: Answer | None
) -> None:
    server = serve(answer)

    error = refusal(server, call)

    assert isinstance(error, Unavailable)
    assert error.may_have_applied
    assert len(server.requests) == 1


def test_a_conditional_write_is_not_repeated_even_where_that_would_succeed(serve: Serve) -> None:
    server = serve(failed(500, "InternalError"), OK)

    assert isinstance(refusal(server, create), Unavailable)
    assert len(server.requests) == 1


def test_a_write_that_takes_too_long_may_have_happened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = S3Store(
            "bucket",
            clock=FixedClock(),
            endpoint=endpoint,
            allow_http=True,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            timeout=timedelta(seconds=0.2),
        )
        with pytest.raises(Unavailable) as refused:
            store.create("k", b"x")

    assert refused.value.may_have_applied


def test_reads_and_plain_writes_are_repeated(serve: Serve) -> None:
    found: Answer = (
        200,
        b"data",
        {"etag": '"t"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
    )

    for call, answer in ((get, found), (put, OK)):
        server = serve(failed(503, "SlowDown"), answer)
        call(server.store())
        assert len(server.requests) == 2


@pytest.mark.parametrize("call", [create, replace, put, get, listing, delete])
@pytest.mark.parametrize(
    "answer",
    [
        failed(403, "AccessDenied"),
        failed(403, "SignatureDoesNotMatch"),
        failed(401, "Unauthorized"),
        failed(400, "ExpiredToken"),
        failed(404, "NoSuchBucket"),
        failed(301, "PermanentRedirect"),
    ],
)
def test_a_request_that_cannot_work_says_what_to_check(
    serve: Serve, call: Call, answer: Answer
) -> None:
    error = refusal(serve(answer), call)

    assert type(error) is Invalid
    assert error.remedy


@pytest.mark.parametrize("call", [create, replace])
def test_a_server_without_conditional_writes_is_named_as_such(serve: Serve, call: Call) -> None:
    error = refusal(serve(failed(501, "NotImplemented")), call)

    assert type(error) is Invalid
    assert "conditional writes" in error.remedy


def test_plain_http_has_to_be_allowed(serve: Serve) -> None:
    with pytest.raises(Invalid, match="allow_http"):
        serve(OK).store(allow_http=False).create("k", b"x")


def test_a_missing_object_is_not_found_and_deleting_it_is_fine(serve: Serve) -> None:
    assert type(refusal(serve(failed(404, "NoSuchKey")), get)) is NotFound
    serve(failed(404, "NoSuchKey")).store().delete("k")
    serve((204, b"", {})).store().delete("k")


def test_a_server_that_is_not_there_is_unavailable(serve: Serve) -> None:
    server = serve(OK)
    store = server.store()
    server.close()

    with pytest.raises(Unavailable, match="Connection refused"):
        store.create("k", b"x")


def test_the_conditions_go_out_as_headers(serve: Serve) -> None:
    server = serve(OK)
    store = server.store()

    made = store.create("k", b"x")
    store.replace_if("k", b"x", version=made.version)
    store.put("k", b"x")

    conditions = [
        (method, path, headers.get("if-none-match"), headers.get("if-match"))
        for method, path, headers in server.requests
    ]
    assert conditions == [
        ("PUT", "/bucket/pre/k", "*", None),
        ("PUT", "/bucket/pre/k", None, '"tag"'),
        ("PUT", "/bucket/pre/k", None, None),
    ]
    assert made.modified == FixedClock().now()


@pytest.mark.parametrize("call", [create, replace, put, get, listing, delete])
@pytest.mark.parametrize(
    "answer", [failed(403, "AccessDenied"), failed(500, "InternalError"), failed(412, "X"), None]
)
def test_no_credential_is_repeated_in_an_error(
    serve: Serve, call: Call, answer: Answer | None
) -> None:
    # A server that echoes what it was sent must not make us do the same.
    if answer is not None:
        answer = (answer[0], answer[1] + f"{SECRET} {KEY_ID}".encode(), {})

    error = refusal(serve(*([answer] * 10)), call)

    for said in (str(error), repr(error), error.message, error.remedy):
        assert SECRET not in said
        assert KEY_ID not in said
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_options_that_make_no_client_are_refused_without_repeating_them() -> None:
    with pytest.raises(Invalid) as refused:
        S3Store("", clock=FixedClock(), endpoint=f"http://{SECRET}@host", secret_access_key=SECRET)

    assert SECRET not in str(refused.value)
