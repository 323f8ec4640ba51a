"""What a pool and its worker processes say to each other, and how it is framed.

A message is a length in four bytes and MessagePack. Either side may die at any byte: the other sees
the end of the stream, never half a message.
"""

import msgspec

from servo.core.events.assets import Severity
from servo.core.events.tasks import CommittedOutput, TaskCost, TaskError, TaskOutcome
from servo.core.keys import TaskOperation
from servo.processes.frames import framed


class Input(msgspec.Struct, frozen=True, array_like=True):
    """An output that was the latest when the execution was granted."""

    materialization_id: str
    uri: str


class Work(msgspec.Struct, frozen=True, kw_only=True, tag="work"):
    """A granted execution, with everything it may need to know.

    `checks` are those to run, None for all there are. `partitions` are those to make, as they are
    stored; `input_partitions` those to load of each asset, None where the worker is to find out.
    `inputs` are by asset, or by `place_of` for partitions.
    """

    exec_id: str
    run_id: str
    task_key: str
    asset_key: str
    also_makes: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    input_partitions: dict[str, tuple[str, ...] | None] = {}
    attempt: int
    attempt_id: str
    fencing_token: int
    failures: int = 0
    inputs: dict[str, Input] = {}
    tags: dict[str, str] = {}
    run_config: str = ""
    operation: TaskOperation = TaskOperation.MATERIALIZE
    checks: tuple[str, ...] | None = None


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The worker has imported the user's code and waits."""

    pid: int


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The worker could not import the user's code."""

    message: str


class Checked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a check found."""

    name: str
    passed: bool
    blocking: bool = False
    severity: Severity = Severity.ERROR
    message: str = ""
    metadata: str = ""
    asset_key: str = ""
    materialization_id: str = ""


class Reported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What user code said of an asset that it does not make: that it was made, or only seen."""

    asset_key: str
    seen: bool = False
    partition: str | None = None
    data_version: str = ""
    metadata: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", omit_defaults=True):
    """An execution ended, and how."""

    exec_id: str
    outcome: TaskOutcome
    output: CommittedOutput | None = None
    outputs: tuple[CommittedOutput, ...] = ()
    error: TaskError | None = None
    cost: TaskCost | None = None
    retry_after_ms: int | None = None
    code_version: str = ""
    checks: tuple[Checked, ...] = ()
    reported: tuple[Reported, ...] = ()


FromWorker = Ready | Broken | Done

_encoder = msgspec.msgpack.Encoder()
to_worker = msgspec.msgpack.Decoder(Work)
from_worker = msgspec.msgpack.Decoder(FromWorker)


def frame(message: Work | FromWorker) -> bytes:
    """A message as bytes on the wire."""
    return framed(_encoder.encode(message))
