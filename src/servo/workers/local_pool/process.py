"""A warm worker process: imports the user's code once and runs executions until it is told to go.

    python -m servo.workers.local_pool.process SOCKET TESTAMENT OUTPUT PERMITS

Started by a pool and connected to it by a socket, over which it is told where everything is; when
the pool is gone, so is the worker, with everything that user code has started. The pool has the
other files as well: it learns from two what the worker can no longer say if it dies (see
`servo.workers.local_pool.crash_record`), and by the last takes back what the worker has not begun
(see `servo.workers.local_pool.permits`).
"""

import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import cache, partial

import msgspec

from servo.code.loader import load_location
from servo.code.process_setup import RECEIVE_BYTES, ProcessSetup, open_instance
from servo.core.events.tasks import TaskOutcome
from servo.errors import Invalid, ServoError
from servo.execution.attempt import Runner, failed, message_of, print_error
from servo.execution.capture import Capture
from servo.execution.checks.limits import tell_limits
from servo.execution.cleanup import Tidying
from servo.execution.hooks import Hooks
from servo.execution.invoke import Calls
from servo.execution.messages import Broken, Ready, frame, to_worker
from servo.execution.outputs.patience import Patience
from servo.execution.outputs.store import OutputStore
from servo.leader.assignments import TaskResult
from servo.ports.clock import Clock
from servo.processes.asset_log import LOG_FORMAT, asset_log
from servo.processes.descendants import MARK
from servo.processes.frames import Frames, sendable
from servo.processes.lifetime import die_with
from servo.processes.redacted_output import RedactedOutput
from servo.processes.stopping import STOPPED, Interrupted, is_from_outside
from servo.sdk.definitions.project import Project
from servo.sdk.resources.environment import set_environment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.secrets import set_secrets
from servo.workers.local_pool.crash_record import CrashRecord
from servo.workers.local_pool.permits import Drawing
from servo.workspace.composition import open_to_read


def main() -> int:
    """Serve the pool on the other end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by who started us
    signal.signal(signal.SIGTERM, _interrupt)
    pool = socket.socket(fileno=int(sys.argv[1]))
    pool.set_inheritable(False)
    crash_record, output, permits = (_inherited(number) for number in sys.argv[2:5])
    faulthandler.enable(crash_record, all_threads=False)
    os.register_at_fork(after_in_child=pool.close)
    ends = (pool.fileno(), os.environ.get(MARK, ""))
    threading.Thread(target=die_with, args=ends, daemon=True).start()
    try:
        setup = _told(pool)
        if setup is None:
            return 0
        return _work_for(pool, setup, output, CrashRecord(crash_record), Drawing(permits))
    except Interrupted:
        return STOPPED
    except (BrokenPipeError, ConnectionResetError):
        return 0  # the pool is gone


def _told(pool: socket.socket) -> ProcessSetup | None:
    """Where everything is; None if the pool has hung up."""
    frames = Frames(msgspec.msgpack.Decoder(ProcessSetup))
    while data := pool.recv(RECEIVE_BYTES):
        for setup in frames.feed(data):
            return setup
    return None


def _inherited(number: str) -> int:
    """A file that the pool has passed on, and that goes no further."""
    os.set_inheritable(int(number), False)
    return int(number)


def _work_for(
    pool: socket.socket,
    setup: ProcessSetup,
    output: int,
    crash_record: CrashRecord,
    drawing: Drawing,
) -> int:
    hidden().before_first(crash_record.has_secrets)
    printed = RedactedOutput(hidden())
    try:
        project = _project(setup, printed)
        runner = _runner(setup, project, output, crash_record)
    except ServoError as error:
        pool.sendall(frame(Broken(message=sendable(hidden().text(str(error))))))
        return 1
    except BaseException as error:
        if is_from_outside(error):
            raise
        pool.sendall(frame(Broken(message=message_of(error))))
        return 1
    pool.sendall(frame(Ready(pid=os.getpid())))
    return serve(pool, runner, crash_record, drawing)


_asked_to_stop = threading.Event()


def _interrupt(*_: object) -> None:
    _asked_to_stop.set()
    raise Interrupted


def _note_limit(crash_record: CrashRecord, clock: Clock, seconds: float, what: str) -> None:
    crash_record.limit(clock.monotonic() + seconds if seconds else 0.0, what)


def _project(setup: ProcessSetup, printed: RedactedOutput) -> Project:
    set_environment(os.environ)
    try:
        project = load_location(setup.location)
    finally:
        printed.finish()  # what is printed later is captured
    set_secrets(project.secrets)
    return project


def _runner(
    setup: ProcessSetup, project: Project, output: int, crash_record: CrashRecord
) -> Runner:
    # After the import: user code may set what the store's credentials are found by.
    world, paths = open_to_read(setup.address.store), setup.address.paths
    clock, store = world.clock, world.store
    tell_limits(partial(_note_limit, crash_record, clock))
    capture = Capture(store, paths, clock, output)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
    log = asset_log()
    outputs = OutputStore(store, paths, patience=Patience(clock, log))
    instance = cache(lambda: open_instance(setup))
    calls = Calls(project, outputs, log, os.environ, clock=clock, instance=instance)
    hooks = Hooks(project, log, os.environ, load=outputs.load, instance=instance)
    return Runner(
        calls,
        clock,
        on_error=print_error,
        hooks=hooks,
        before=capture.begin,
        after=capture.keep,
    )


def serve(pool: socket.socket, runner: Runner, crash_record: CrashRecord, drawing: Drawing) -> int:
    """Run what the pool sends, one after the other, until the pool hangs up; the exit code."""
    frames, tidying = Frames(to_worker), Tidying()
    while data := pool.recv(RECEIVE_BYTES):
        for work in frames.feed(data):
            if not drawing.may_begin():
                continue
            crash_record.one_more()
            done = runner.run(work)
            stopped = _asked_to_stop.is_set()  # and user code made something else of it
            if not stopped or done.outcome is not TaskOutcome.FAILED:
                pool.sendall(_framed(done))
            if stopped:
                return STOPPED
            tidying.tidy(thoroughly=done.cost is not None)
    return 0


def _framed(done: TaskResult) -> bytes:
    """How an execution ended, as bytes; what user code put into it may not be sendable."""
    try:
        return frame(done)
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the end
        told = Invalid(f"the report cannot be sent: {error}", remedy="report plain values and text")
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
