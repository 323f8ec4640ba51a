"""`PipesSubprocessClient`: an asset that is made by another program on this machine.

What the program prints is printed here, and so kept with everything else the execution prints. It
ends with the execution: when the task is cancelled, or takes too long, the program is asked to
terminate, and killed if it does not.
"""

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, ClassVar

from servo.errors import Invalid, NotFound
from servo.execution.pipes.session import (
    PipesClientCompletedInvocation,
    PipesSession,
    open_pipes_session,
)
from servo.execution.pipes.transport import (
    PipesContextInjector,
    PipesMessageReader,
    PipesTempFileContextInjector,
    PipesTempFileMessageReader,
)
from servo.sdk.assets.context import AssetExecutionContext

TAIL_BYTES = 4_000
GRACE_SECONDS = 5.0
LAST_WORDS_SECONDS = 2.0


class PipesExecutionError(Exception):
    """A program that an asset started did not end well."""


class PipesSubprocessClient:
    """Starts programs, tells them their context and takes their results.

    `env` and `cwd` are for every program; the environment of this process is passed along.
    """

    __servo_resource__: ClassVar[bool] = True

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        context_injector: PipesContextInjector | None = None,
        message_reader: PipesMessageReader | None = None,
        *,
        forward_termination: bool = True,
    ) -> None:
        self.env = dict(env or {})
        self.cwd = cwd
        self._injector = context_injector or PipesTempFileContextInjector()
        self._reader = message_reader or PipesTempFileMessageReader()
        self._forward_termination = forward_termination

    def run(
        self,
        *,
        command: str | Sequence[str],
        context: AssetExecutionContext,
        extras: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> PipesClientCompletedInvocation:
        """Run a program to its end; `PipesExecutionError` if that is not a good one."""
        words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
        if not words:
            raise Invalid("the command is empty", remedy='use command=["python", "script.py"]')
        with open_pipes_session(context, self._injector, self._reader, extras) as session:
            whole = {**os.environ, **self.env, **(env or {}), **session.get_bootstrap_env_vars()}
            process = _start(words, whole, cwd or self.cwd)
            tail = self._attend(process, words[0], context)
        if process.returncode != 0:
            raise PipesExecutionError(_told(words, process.returncode, tail, session))
        return PipesClientCompletedInvocation(session)

    def _attend(
        self, process: "subprocess.Popen[bytes]", name: str, context: AssetExecutionContext
    ) -> str:
        """Wait for a program and pass on what it prints; the end of what it says of errors."""
        if process.stderr is None:
            raise Invalid("the program has no standard error", remedy="start it with a pipe")
        tail = bytearray()
        listener = threading.Thread(target=_pass_on, args=(process.stderr, tail), daemon=True)
        try:
            listener.start()
            context.log.info("started %s as process %s", name, process.pid)
            process.wait()
        except BaseException:  # cancelled, timed out or Ctrl-C
            if self._forward_termination:
                _end(process)
            raise
        finally:
            if listener.ident is not None:
                # Whatever the program left running may hold its end of the pipe for ever.
                listener.join(LAST_WORDS_SECONDS)
        return bytes(tail).decode(errors="replace")


def _start(
    words: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - what the asset's author asked for
            words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
    except FileNotFoundError as error:
        where = f" in {cwd}" if cwd else ""
        raise NotFound(
            f"{words[0]} cannot be started{where}: {error.strerror}: {error.filename}",
            remedy="name a program on the PATH, or its whole path, and a folder that exists",
        ) from None
    except PermissionError as error:
        raise Invalid(
            f"{words[0]} cannot be started: {error.strerror}",
            remedy='make it executable, or start it with its interpreter: ["python", "script.py"]',
        ) from None


def _pass_on(stream: IO[bytes], tail: bytearray) -> None:
    """Print here what the program prints, and remember the end of it."""
    with stream:
        while data := os.read(stream.fileno(), 1 << 16):
            tail += data
            del tail[:-TAIL_BYTES]
            while data:
                data = data[os.write(2, data) :]


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except BaseException as error:  # too slow, or interrupted once more
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def _told(words: Sequence[str], code: int, tail: str, session: PipesSession) -> str:
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    parts = [f"{shlex.join(words)} ended with {how}"]
    said = session.message_handler.exception
    if said is not None:
        parts.append(f"it raised {str(said.get('message', '')).strip()}")
    if tail.strip():
        parts.append(f"the end of its output:\n{tail.strip()}")
    return "; ".join(parts)
