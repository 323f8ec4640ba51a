"""A warm worker process: imports the user's code once and runs executions until it is told to go.

    python -m servo.worker.process SOCKET TESTAMENT OUTPUT PERMITS

Started by a pool and connected to it by a socket, over which it is told where everything is; when
the pool is gone, so is the worker, with everything that user code has started. The pool has the
other files as well: it learns from two what the worker can no longer say if it dies (see
`servo.worker.testament`), and by the last takes back what the worker has not begun (see
`servo.worker.permits`).
"""

import faulthandler
import logging
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from servo.core.events.tasks import TaskOutcome
from servo.errors import Invalid, ServoError
from servo.ledger.paths import Paths
from servo.runtime.system import SystemClock
from servo.sdk.environment import set_environment
from servo.sdk.redaction import hidden
from servo.sdk.secrets import set_secrets
from servo.storage.from_url import store_from_url
from servo.worker.asset_log import asset_log
from servo.worker.calls import Calls
from servo.worker.capture import Capture
from servo.worker.check_limits import tell_limits
from servo.worker.hooking import Hooks
from servo.worker.loader import load_project
from servo.worker.messages import Broken, Done, Frames, Ready, frame, framed, sendable, to_worker
from servo.worker.offspring import MARK, kill_marked
from servo.worker.outputs import OutputStore
from servo.worker.permits import Drawing
from servo.worker.run_task import Runner, failed, message_of, print_error
from servo.worker.stopping import STOPPED, Interrupted, is_from_outside
from servo.worker.testament import Testament
from servo.worker.tidying import Tidying

RECEIVE_BYTES = 1 << 16
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker finds the code and the store."""

    code: str
    folder: str
    store: str
    tenant: str
    workspace: str
    as_dagster: bool = False
    stays: bool = False
    """Whether whoever leads goes on when there is nothing to do, and takes requests of others."""

    @property
    def place(self) -> str:
        """Which code is meant, told apart from that of the same name elsewhere."""
        if self.code.endswith(".py"):
            return str(Path(self.folder, self.code).resolve())
        return f"{self.code} in {self.folder}"

    @property
    def address(self) -> str:
        """The workspace, told apart from every other on this machine."""
        return f"{self.store}|{self.tenant}|{self.workspace}"


def main() -> int:
    """Serve the pool on the other end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by who started us
    signal.signal(signal.SIGTERM, _interrupt)
    pool = socket.socket(fileno=int(sys.argv[1]))
    pool.set_inheritable(False)
    testament, output, permits = (_inherited(number) for number in sys.argv[2:5])
    faulthandler.enable(testament, all_threads=False)
    os.register_at_fork(after_in_child=pool.close)
    ends = (pool.fileno(), os.environ.get(MARK, ""))
    threading.Thread(target=die_with, args=ends, daemon=True).start()
    try:
        setting = _told(pool)
        if setting is None:
            return 0
        return _work_for(pool, setting, output, Testament(testament), Drawing(permits))
    except Interrupted:
        return STOPPED
    except (BrokenPipeError, ConnectionResetError):
        return 0  # the pool is gone


def framed_setting(setting: Setting) -> bytes:
    """What a worker is told first."""
    data = msgspec.msgpack.encode(setting)
    return framed(data)


def _told(pool: socket.socket) -> Setting | None:
    """Where everything is; None if the pool has hung up."""
    frames = Frames(msgspec.msgpack.Decoder(Setting))
    while data := pool.recv(RECEIVE_BYTES):
        for setting in frames.feed(data):
            return setting
    return None


def _inherited(number: str) -> int:
    """A file that the pool has passed on, and that goes no further."""
    os.set_inheritable(int(number), False)
    return int(number)


def _work_for(
    pool: socket.socket, setting: Setting, output: int, testament: Testament, drawing: Drawing
) -> int:
    hidden().before_first(testament.has_secrets)
    tell_limits(testament.limit)
    try:
        runner = _runner(setting, output)
    except ServoError as error:
        pool.sendall(frame(Broken(message=sendable(hidden().text(str(error))))))
        return 1
    except BaseException as error:
        if is_from_outside(error):
            raise
        pool.sendall(frame(Broken(message=message_of(error))))
        return 1
    pool.sendall(frame(Ready(pid=os.getpid())))
    return serve(pool, runner, testament, drawing)


_asked_to_stop = threading.Event()


def _interrupt(*_: object) -> None:
    _asked_to_stop.set()
    raise Interrupted


def die_with(pool: int, mark: str = "") -> None:
    """End this process and all it started when the pool is gone, whatever user code is doing."""
    poll = select.poll()
    poll.register(pool, 0)
    poll.poll()  # nothing is asked for, so it tells of the end alone
    kill_marked(mark)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _runner(setting: Setting, output: int) -> Runner:
    clock = SystemClock()
    set_environment(os.environ)
    project = load_project(setting.code, Path(setting.folder), as_dagster=setting.as_dagster)
    set_secrets(project.secrets)
    paths = Paths(setting.tenant, setting.workspace)
    store = store_from_url(setting.store, clock=clock)
    capture = Capture(store, paths, clock, output)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
    log = asset_log()
    outputs = OutputStore(store, paths)
    instance = cache(lambda: open_instance(setting))
    calls = Calls(project, outputs, log, os.environ, instance=instance)
    hooks = Hooks(project, log, os.environ, load=outputs.load, instance=instance)
    return Runner(
        calls,
        clock,
        on_error=print_error,
        hooks=hooks,
        before=capture.begin,
        after=capture.keep,
    )


def open_instance(setting: Setting) -> Any:
    """What `context.instance` is; loaded when user code asks for it, which it seldom does."""
    made = import_module("servo.worker.instance").ServoInstance
    tenant, workspace = setting.tenant, setting.workspace
    return made.of_store(setting.store, tenant=tenant, workspace=workspace)


def serve(pool: socket.socket, runner: Runner, testament: Testament, drawing: Drawing) -> int:
    """Run what the pool sends, one after the other, until the pool hangs up; the exit code."""
    frames, tidying = Frames(to_worker), Tidying()
    while data := pool.recv(RECEIVE_BYTES):
        for work in frames.feed(data):
            if not drawing.may_begin():
                continue
            testament.one_more()
            done = runner.run(work)
            stopped = _asked_to_stop.is_set()  # and user code made something else of it
            if not stopped or done.outcome is not TaskOutcome.FAILED:
                pool.sendall(_framed(done))
            if stopped:
                return STOPPED
            tidying.tidy(thoroughly=done.cost is not None)
    return 0


def _framed(done: Done) -> bytes:
    """How an execution ended, as bytes; what user code put into it may not be sendable."""
    try:
        return frame(done)
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the end
        told = Invalid(f"what it told cannot be sent: {error}", remedy="tell plain values and text")
        return frame(failed(done.exec_id, told))


if __name__ == "__main__":
    _code = 1
    try:
        _code = main()
    finally:
        for _stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError, AttributeError):
                _stream.flush()
        os._exit(_code)  # threads that user code left behind do not keep the pool waiting
