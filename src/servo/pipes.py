"""The other end of a pipe: for programs that an asset starts, in their own environment.

    from servo.pipes import open_servo_pipes

    with open_servo_pipes() as pipes:
        pipes.log.info("reading %s", pipes.get_extra("table"))
        pipes.report_asset_materialization(metadata={"rows": 12})

It speaks the protocol of Dagster Pipes, so that either end may be Dagster's. This file needs the
standard library and nothing else, not even Servo: it may be copied to where Servo is not installed.

What the program is told and where it answers stands in two variables of its environment, or in two
arguments of its command line, each base64 of zlib of JSON. It answers with one JSON object on a
line for each message, each written at once, so that nothing is lost when the program dies.
"""

import argparse
import base64
import binascii
import json
import logging
import os
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from traceback import TracebackException
from typing import Any, ClassVar, Protocol, TextIO, cast

PROTOCOL_VERSION = "0.1"
VERSION_FIELD = "__dagster_pipes_version"
CONTEXT_VARIABLE = "DAGSTER_PIPES_CONTEXT"
MESSAGES_VARIABLE = "DAGSTER_PIPES_MESSAGES"
INFER = "__infer__"
METADATA_TYPES = frozenset(
    {
        INFER,
        "text",
        "url",
        "path",
        "notebook",
        "json",
        "md",
        "float",
        "int",
        "bool",
        "dagster_run",
        "asset",
        "null",
        "table",
        "table_schema",
        "table_column_lineage",
        "timestamp",
    }
)

_Message = dict[str, Any]
_Params = Mapping[str, Any]
Write = Callable[[_Message], None]


class PipesError(Exception):
    """The pipe cannot carry this, or was not opened by an orchestrator."""


class PipesWarning(Warning):
    """The program runs without an orchestrator."""


def encode_param(value: Any) -> str:
    """A value as text for a variable of the environment."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError) as error:
        raise PipesError(f"{value!r} cannot be written as JSON: {error}") from None
    return base64.b64encode(zlib.compress(text.encode())).decode()


def decode_param(value: str) -> Any:
    """The value that `encode_param` wrote."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(value)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise PipesError(f"a parameter of the pipe cannot be read: {error}") from None


encode_env_var = encode_param
decode_env_var = decode_param


def make_message(method: str, params: _Params | None) -> _Message:
    """One message, as both ends know it."""
    return {VERSION_FIELD: PROTOCOL_VERSION, "method": method, "params": params}


# --- where the parameters come from ---------------------------------------------------------------


class PipesParamsLoader(Protocol):
    """Finds what the orchestrator said about the pipe."""

    def is_dagster_pipes_process(self) -> bool:
        """Whether there is an orchestrator."""
        ...

    def load_context_params(self) -> _Params:
        """Where the context is."""
        ...

    def load_messages_params(self) -> _Params:
        """Where messages go."""
        ...


class PipesMappingParamsLoader:
    """Finds the parameters in a mapping."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._mapping = mapping

    def is_dagster_pipes_process(self) -> bool:
        return CONTEXT_VARIABLE in self._mapping

    def load_context_params(self) -> _Params:
        return decode_param(self._mapping[CONTEXT_VARIABLE])

    def load_messages_params(self) -> _Params:
        if MESSAGES_VARIABLE not in self._mapping:
            raise PipesError(f"{CONTEXT_VARIABLE} is set and {MESSAGES_VARIABLE} is not")
        return decode_param(self._mapping[MESSAGES_VARIABLE])


class PipesEnvVarParamsLoader(PipesMappingParamsLoader):
    """Finds the parameters in the environment."""

    def __init__(self) -> None:
        super().__init__(os.environ)


class PipesCliArgsParamsLoader(PipesMappingParamsLoader):
    """Finds the parameters among the arguments of the command line."""

    def __init__(self, arguments: Sequence[str] | None = None) -> None:
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        names = {CONTEXT_VARIABLE: "--dagster-pipes-context"}
        names[MESSAGES_VARIABLE] = "--dagster-pipes-messages"
        for variable, option in names.items():
            parser.add_argument(option, dest=variable)
        found, _ = parser.parse_known_args(arguments)
        super().__init__({name: value for name, value in vars(found).items() if value is not None})


# --- the context and the messages -----------------------------------------------------------------


class PipesContextLoader(Protocol):
    """Loads what the program is told."""

    def load_context(self, params: _Params) -> AbstractContextManager[Mapping[str, Any]]:
        """The data of the context, around its use."""
        ...


class PipesDefaultContextLoader:
    """Loads the context from a file, or finds it in the parameters themselves."""

    @contextmanager
    def load_context(self, params: _Params) -> Generator[Mapping[str, Any]]:
        if isinstance(params.get("path"), str):
            yield json.loads(Path(params["path"]).read_text(encoding="utf-8"))
        elif isinstance(params.get("data"), dict):
            yield params["data"]
        else:
            raise PipesError(f"the context is neither in a file nor in the parameters: {params!r}")


class PipesMessageWriterChannel(Protocol):
    """Carries messages."""

    def write_message(self, message: _Message) -> None:
        """Send one, now."""
        ...


class PipesMessageWriter(Protocol):
    """Opens the way for messages."""

    def open(self, params: _Params) -> AbstractContextManager[PipesMessageWriterChannel]:
        """The channel, around its use."""
        ...

    def get_opened_payload(self) -> Mapping[str, Any]:
        """What the first message says."""
        ...


class PipesFileMessageWriterChannel:
    """Adds every message to a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()

    def write_message(self, message: _Message) -> None:
        line = f"{json.dumps(message)}\n".encode()
        # One write to a file opened for appending: messages of several processes do not mix.
        with self._lock, self._path.open("ab", buffering=0) as file:
            _ = file.write(line)


class PipesStreamMessageWriterChannel:
    """Prints every message."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write_message(self, message: _Message) -> None:
        _ = self._stream.write(f"{json.dumps(message)}\n")
        self._stream.flush()


class PipesBufferedStreamMessageWriterChannel:
    """Keeps messages, and prints them all at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held: list[_Message] = []

    def write_message(self, message: _Message) -> None:
        self._held.append(message)

    def flush(self) -> None:
        self._stream.writelines(f"{json.dumps(message)}\n" for message in self._held)
        self._stream.flush()
        self._held.clear()


class PipesDefaultMessageWriter:
    """Writes messages to a file, or to standard output or error."""

    @contextmanager
    def open(self, params: _Params) -> Generator[PipesMessageWriterChannel]:
        if isinstance(params.get("path"), str):
            yield PipesFileMessageWriterChannel(params["path"])
        elif "stdio" in params:
            yield PipesStreamMessageWriterChannel(_stream(params["stdio"]))
        elif "buffered_stdio" in params:
            channel = PipesBufferedStreamMessageWriterChannel(_stream(params["buffered_stdio"]))
            try:
                yield channel
            finally:
                channel.flush()
        else:
            raise PipesError(
                f"messages go neither to a file nor to a stream: {params!r}; the other end may "
                "expect another message_writer: pass one to open_servo_pipes"
            )

    def get_opened_payload(self) -> Mapping[str, Any]:
        return {"extras": {}}


def _stream(name: Any) -> TextIO:
    if name not in ("stdout", "stderr"):
        raise PipesError(f"messages go to {name!r}, which is neither stdout nor stderr")
    return sys.stdout if name == "stdout" else sys.stderr


class _LogHandler(logging.Handler):
    def __init__(self, write: Callable[[str, _Params], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write("log", {"message": record.getMessage(), "level": record.levelname})


# --- what programs use ----------------------------------------------------------------------------


class PipesContext:
    """What a program is told, and what it can say. `open_servo_pipes` makes it."""

    _opened: ClassVar[Any] = None

    def __init__(
        self,
        params_loader: PipesParamsLoader,
        context_loader: PipesContextLoader,
        message_writer: PipesMessageWriter,
    ) -> None:
        context, messages = (
            params_loader.load_context_params(),
            params_loader.load_messages_params(),
        )
        self._stack = ExitStack()
        self._data = self._stack.enter_context(context_loader.load_context(context))
        self._channel = self._stack.enter_context(message_writer.open(messages))
        self._channel.write_message(make_message("opened", message_writer.get_opened_payload()))
        self._log = logging.Logger("servo.pipes")  # noqa: LOG001 - this context's alone
        self._log.addHandler(_LogHandler(self._write))
        self._reported: set[str] = set()
        self._closed = False

    @classmethod
    def is_initialized(cls) -> bool:
        """Whether this program has opened its pipe."""
        return cls._opened is not None

    @classmethod
    def set(cls, context: Any) -> None:
        """Make this the context of the program."""
        cls._opened = context

    @classmethod
    def get(cls) -> "PipesContext":
        """The context of the program; an error if no pipe was opened."""
        if cls._opened is None:
            raise PipesError("no pipe was opened; call open_servo_pipes() first")
        return cls._opened

    def __enter__(self) -> "PipesContext":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close(_told(TracebackException(kind, error, trace)) if error is not None else None)

    def close(self, exc: Mapping[str, Any] | None = None) -> None:
        """Say that there is nothing more to say; a second time does nothing."""
        if self._closed:
            return
        self._channel.write_message(make_message("closed", {"exception": exc} if exc else {}))
        self._stack.close()
        self._closed = True

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def _write(self, method: str, params: _Params) -> None:
        if self._closed:
            raise PipesError(f"{method}: the pipe was closed before")
        try:
            self._channel.write_message(make_message(method, params))
        except (TypeError, ValueError) as error:
            raise PipesError(f"{method}: this cannot be written as JSON: {error}") from None

    # --- what it is told ----------------------------------------------------------------------

    @property
    def is_asset_step(self) -> bool:
        """Whether assets are being made."""
        return self._data.get("asset_keys") is not None

    @property
    def asset_keys(self) -> Sequence[str]:
        """The assets that are being made."""
        return self._of_asset("asset_keys")

    @property
    def asset_key(self) -> str:
        """The one asset that is being made."""
        return self._only(self.asset_keys, "asset_key")

    @property
    def code_version_by_asset_key(self) -> Mapping[str, str | None]:
        """The version of the code of every asset."""
        return self._of_asset("code_version_by_asset_key")

    @property
    def code_version(self) -> str | None:
        """The version of the code of the one asset."""
        return self.code_version_by_asset_key[self.asset_key]

    @property
    def provenance_by_asset_key(self) -> Mapping[str, Any]:
        """What every asset was made of the last time, as far as it is known."""
        return self._of_asset("provenance_by_asset_key")

    @property
    def provenance(self) -> Any:
        """What the one asset was made of the last time, if it is known."""
        return self.provenance_by_asset_key[self.asset_key]

    @property
    def is_partition_step(self) -> bool:
        """Whether partitions are being made."""
        return self._data.get("partition_key_range") is not None

    @property
    def partition_key(self) -> str:
        """The one partition that is being made."""
        return self._of_partition("partition_key")

    @property
    def partition_key_range(self) -> Mapping[str, str]:
        """The first and the last partition that are being made: `start` and `end`."""
        return self._of_partition("partition_key_range")

    @property
    def partition_time_window(self) -> Mapping[str, str] | None:
        """From when to when the partitions reach, if they are times: `start` and `end`."""
        _ = self.partition_key_range
        return self._data.get("partition_time_window")

    @property
    def run_id(self) -> str:
        """The run."""
        return self._data["run_id"]

    @property
    def job_name(self) -> str | None:
        """The job, if the run is one's."""
        return self._data.get("job_name")

    @property
    def retry_number(self) -> int:
        """How many attempts were made before this one."""
        return self._data["retry_number"]

    @property
    def extras(self) -> Mapping[str, Any]:
        """What the asset passed along."""
        return self._data.get("extras") or {}

    def get_extra(self, key: str) -> Any:
        """One value of those that the asset passed along."""
        if key not in self.extras:
            there = ", ".join(self.extras) or "none"
            raise PipesError(f"there is no extra {key!r}; there are: {there}")
        return self.extras[key]

    def _of_asset(self, name: str) -> Any:
        if self._data.get(name) is None:
            raise PipesError(f"{name} is not known: no asset is being made")
        return self._data[name]

    def _of_partition(self, name: str) -> Any:
        if self._data.get(name) is None:
            raise PipesError(f"{name} is not known: no single partition is being made")
        return self._data[name]

    @staticmethod
    def _only(keys: Sequence[str], name: str) -> str:
        if len(keys) != 1:
            raise PipesError(f"{name} is not known: {len(keys)} assets are being made")
        return keys[0]

    # --- what it can say ----------------------------------------------------------------------

    @property
    def log(self) -> logging.Logger:
        """A log that the orchestrator keeps."""
        return self._log

    def report_asset_materialization(
        self,
        metadata: Mapping[str, Any] | None = None,
        data_version: str | None = None,
        asset_key: str | None = None,
    ) -> None:
        """Say that an asset was made, once for each."""
        method = "report_asset_materialization"
        key = self._chosen(asset_key, method)
        if key in self._reported:
            raise PipesError(f"{method}: {key} was reported before")
        if data_version is not None and not isinstance(cast("object", data_version), str):
            raise PipesError(f"{method}: data_version is {data_version!r}, which is not text")
        told = _metadata(metadata, method)
        self._write(method, {"asset_key": key, "data_version": data_version, "metadata": told})
        self._reported.add(key)

    def report_asset_check(
        self,
        check_name: str,
        passed: bool,
        severity: str = "ERROR",
        metadata: Mapping[str, Any] | None = None,
        asset_key: str | None = None,
    ) -> None:
        """Say what a check of an asset found."""
        method = "report_asset_check"
        if not isinstance(cast("object", passed), bool):
            raise PipesError(f"{method}: passed is {passed!r}, which is not a truth value")
        if severity not in ("WARN", "ERROR"):
            raise PipesError(f"{method}: severity is {severity!r}; use WARN or ERROR")
        told = {
            "asset_key": self._chosen(asset_key, method),
            "check_name": check_name,
            "passed": passed,
            "metadata": _metadata(metadata, method),
            "severity": severity,
        }
        self._write(method, told)

    def report_custom_message(self, payload: Any) -> None:
        """Say anything that JSON can hold; the asset gets it as it is."""
        self._write("report_custom_message", {"payload": payload})

    def log_external_stream(
        self, stream: str, text: str, extras: Mapping[str, Any] | None = None
    ) -> None:
        """Pass on what something else printed."""
        told = {"stream": stream, "text": text, "extras": dict(extras or {})}
        self._write("log_external_stream", told)

    def _chosen(self, given: str | None, method: str) -> str:
        known: Sequence[str] = self._data.get("asset_keys") or ()
        if given is None:
            return self._only(known, f"the asset of {method}")
        if known and given not in known:
            raise PipesError(f"{method}: {given} is not being made; {', '.join(known)} is")
        return given


def _metadata(given: Mapping[str, Any] | None, method: str) -> dict[str, Any] | None:
    if not given:
        return None
    return {str(name): _typed(name, value, method) for name, value in given.items()}


def _typed(name: Any, value: Any, method: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {"raw_value": value, "type": INFER}
    typed = cast("dict[str, Any]", value)
    if set(typed) != {"raw_value", "type"} or typed["type"] not in METADATA_TYPES:
        raise PipesError(
            f"{method}: the metadata {name!r} is {typed!r}; write "
            '{"raw_value": ..., "type": "json"}, with one of the types '
            f"{', '.join(sorted(METADATA_TYPES))}"
        )
    return typed


def _told(trace: TracebackException, depth: int = 20) -> dict[str, Any]:
    """An exception as the other end can show it."""
    cause, context = trace.__cause__, trace.__context__
    only = list(trace.format_exception_only())
    return {
        "message": "".join(only),
        "stack": trace.stack.format(),
        "name": only[-1].partition(":")[0].strip().rpartition(".")[2] if only else None,
        "cause": _told(cause, depth - 1) if cause is not None and depth else None,
        "context": _told(context, depth - 1) if context is not None and depth else None,
    }


class _Unheard:
    """Stands for a context where no orchestrator listens: everything can be asked and said."""

    log = logging.getLogger("servo.pipes")
    is_closed = is_asset_step = is_partition_step = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return "<pipes without an orchestrator>"


def open_servo_pipes(
    *,
    context_loader: PipesContextLoader | None = None,
    message_writer: PipesMessageWriter | None = None,
    params_loader: PipesParamsLoader | None = None,
) -> PipesContext:
    """Open the pipe of this program; the second time it is the same one.

    A program that no orchestrator started goes on with a context that keeps everything to itself.
    """
    if PipesContext.is_initialized():
        return PipesContext.get()
    params = params_loader or PipesEnvVarParamsLoader()
    opened: Any = _Unheard()
    if params.is_dagster_pipes_process():
        loader = context_loader or PipesDefaultContextLoader()
        opened = PipesContext(params, loader, message_writer or PipesDefaultMessageWriter())
    else:
        warnings.warn(
            "no orchestrator started this program: what it reports goes nowhere",
            category=PipesWarning,
            stacklevel=2,
        )
    PipesContext.set(opened)
    return opened


open_dagster_pipes = open_servo_pipes
DagsterPipesError = PipesError
DagsterPipesWarning = PipesWarning
