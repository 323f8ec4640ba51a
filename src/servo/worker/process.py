"""A warm worker process: imports the user's code once and runs executions until it is told to go.

    python -m servo.worker.process FD CODE

Started by a pool and connected to it by a socket; when the pool is gone, so is the worker.
"""

import logging
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path

import msgspec

from servo.errors import ServoError
from servo.ledger.paths import Paths
from servo.runtime.system import SystemClock
from servo.sdk.config import set_environment
from servo.storage.from_url import store_from_url
from servo.worker.calls import Calls
from servo.worker.capture import Capture
from servo.worker.loader import load_project
from servo.worker.messages import Broken, Frames, Ready, Work, frame, to_worker
from servo.worker.outputs import OutputStore
from servo.worker.run_task import Runner, print_error

RECEIVE_BYTES = 1 << 16
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker finds the code and the store."""

    code: str
    folder: str
    store: str
    tenant: str
    workspace: str

    @property
    def address(self) -> str:
        """The workspace, told apart from every other on this machine."""
        return f"{self.store}|{self.tenant}|{self.workspace}"


def main() -> int:
    """Serve the pool on the other end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's to handle
    signal.signal(signal.SIGTERM, _interrupt)
    pool = socket.socket(fileno=int(sys.argv[1]))
    pool.set_inheritable(False)
    os.register_at_fork(after_in_child=pool.close)
    threading.Thread(target=_die_with, args=(pool.fileno(),), daemon=True).start()
    setting = msgspec.json.decode(sys.argv[2], type=Setting)
    try:
        return _work_for(pool, setting)
    except (Interrupted, BrokenPipeError, ConnectionResetError):
        return 0  # the pool is gone, or knows what was running and starts another process


class Interrupted(BaseException):
    """The pool asked for the execution to stop; not for user code to catch as an `Exception`."""


def _work_for(pool: socket.socket, setting: Setting) -> int:
    try:
        runner = _runner(setting)
    except ServoError as error:
        pool.sendall(frame(Broken(message=str(error))))
        return 1
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code is imported here
        pool.sendall(frame(Broken(message=f"{type(error).__name__}: {error}")))
        return 1
    pool.sendall(frame(Ready(pid=os.getpid())))
    serve(pool, runner)
    return 0


_asked_to_stop = threading.Event()


def _interrupt(*_: object) -> None:
    _asked_to_stop.set()
    raise Interrupted


def _die_with(pool: int) -> None:
    """End this process when the pool is gone, whatever user code is doing."""
    poll = select.poll()
    poll.register(pool, 0)
    while not any(events & select.POLLHUP for _, events in poll.poll()):
        pass
    os._exit(1)


def _runner(setting: Setting) -> Runner:
    clock = SystemClock()
    set_environment(os.environ)
    project = load_project(setting.code, Path(setting.folder))
    paths = Paths(setting.tenant, setting.workspace)
    store = store_from_url(setting.store, clock=clock)
    capture = Capture(store, paths)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
    log = logging.getLogger("servo.asset")
    calls = Calls(project, OutputStore(store, paths), log, os.environ)
    return Runner(calls, clock, on_error=print_error, after=capture.keep)


def serve(pool: socket.socket, runner: Runner) -> None:
    """Run what the pool sends, one after the other, until the pool hangs up."""
    frames = Frames(to_worker)
    while data := pool.recv(RECEIVE_BYTES):
        for message in frames.feed(data):
            if _asked_to_stop.is_set():
                return  # user code swallowed it
            if isinstance(message, Work):
                pool.sendall(frame(runner.run(message)))


if __name__ == "__main__":
    _code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_code)  # threads that user code left behind do not keep the pool waiting
