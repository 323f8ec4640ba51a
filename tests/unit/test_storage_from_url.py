"""Which store a URL names, and what is refused."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from servo.errors import Invalid, NotFound
from servo.storage.from_url import store_from_url
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.storage.s3 import S3Store
from servo.workspace.system import SystemClock

CLOCK = SystemClock()


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_path_or_a_file_url_is_a_folder(form: str, tmp_path: Path) -> None:
    store = store_from_url(form.format(tmp_path / "made"), clock=CLOCK)

    store.create("k", b"x")

    assert isinstance(store, LocalStore)
    assert (tmp_path / "made" / "k").read_bytes() == b"x"


def test_a_file_url_may_escape_what_a_url_cannot_hold(tmp_path: Path) -> None:
    store_from_url(f"file://{tmp_path}/with%20space", clock=CLOCK).create("k", b"x")

    assert (tmp_path / "with space" / "k").exists()


def test_a_relative_path_starts_where_the_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    store_from_url("data/servo", clock=CLOCK).create("k", b"x")

    assert (tmp_path / "data/servo/k").exists()


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    store_from_url("~/servo", clock=CLOCK).create("k", b"x")

    assert (tmp_path / "servo/k").exists()


def test_a_store_in_memory_is_shared_by_its_name() -> None:
    one = store_from_url("memory://from-url-one", clock=CLOCK)
    other = store_from_url("memory://from-url-other", clock=CLOCK)
    one.create("k", b"x")

    assert isinstance(one, MemoryStore)
    assert store_from_url("memory://from-url-one", clock=CLOCK) is one
    assert other.list_after("") == []


def test_a_bucket_is_opened_without_talking_to_it() -> None:
    url = "s3://bucket/pre/fix?endpoint=http://127.0.0.1:1&region=eu-west-1&allow_http=true"

    assert isinstance(store_from_url(url, clock=CLOCK), S3Store)


class EmptyBucket(BaseHTTPRequestHandler):
    """A server that has nothing, and notes who asks for what."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(404)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


def test_a_bucket_is_asked_for_at_its_endpoint_and_in_its_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with HTTPServer(("127.0.0.1", 0), EmptyBucket) as server:
        serving = Thread(target=server.handle_request, daemon=True)
        serving.start()
        where = f"endpoint=http://127.0.0.1:{server.server_port}&region=eu-west-1&allow_http=true"
        with pytest.raises(NotFound):
            _ = store_from_url(f"s3://bucket/pre?{where}", clock=CLOCK).get("k")
        serving.join()
    ((path, credential),) = EmptyBucket.asked
    assert path.startswith("/bucket/pre/k")
    assert "/eu-west-1/s3/" in credential


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host/path",
        "gs://bucket",
        "file://host/path",
        "file:///path?x=1",
        "file://",
        "s3:/bucket/prefix",
        "s3:bucket/prefix",
        "s3//bucket/prefix",
        "S3:/bucket",
        "gs:/bucket",
        "gopher://[",
        "~nosuchuser/x",
        "memory://name/path",
        "memory://name?x=1",
        "s3://",
        "s3:///prefix",
        "s3://bucket/../up",
        "s3://bucket/a%252e%252e",
        "s3://bucket?colour=red",
        "s3://bucket?allow_http=maybe",
        "s3://bucket?endpoint=host:9000",
        "s3://bucket:9000/prefix",
        "s3://[bucket",
        "a\0b",
    ],
)
def test_what_names_no_store_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        store_from_url(url, clock=CLOCK)

    assert refused.value.remedy


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Invalid) as refused:
        store_from_url("ftp://host/path", clock=CLOCK)

    for known in ("file://", "memory://", "s3://"):
        assert known in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIDEXAMPLE:hunter2secret@bucket/prefix",
        "s3://hunter2secret@bucket/prefix",
        "s3://bucket?endpoint=https://user:hunter2secret@host",
        "s3://bucket?secret_access_key=hunter2secret",
        "memory://user:hunter2secret@name",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        store_from_url(url, clock=CLOCK)

    assert "hunter2secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_whoever_keeps_a_folder_does_not_load_an_http_client() -> None:
    code = (
        "import sys, servo.storage.local, servo.storage.memory, servo.storage.from_url\n"
        "sys.exit('obstore' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
