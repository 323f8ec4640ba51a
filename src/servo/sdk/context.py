"""What an asset's function is told about its execution, and what it can say in return."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from servo.core.keys import AssetKey


class Logger(Protocol):
    """What `context.log` can do."""

    def debug(self, msg: object, *args: object) -> None:
        """Tell a detail."""
        ...

    def info(self, msg: object, *args: object) -> None:
        """Tell what happens."""
        ...

    def warning(self, msg: object, *args: object) -> None:
        """Tell what somebody should look at."""
        ...

    def error(self, msg: object, *args: object) -> None:
        """Tell what went wrong."""
        ...


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Which execution this is."""

    run_id: str = ""
    task_key: str = ""
    attempt: int = 1
    exec_id: str = ""
    fencing_token: int = 0
    run_tags: Mapping[str, str] = {}
    instance: Any = None


class AssetExecutionContext:
    """The execution of one asset."""

    __servo_context__ = True

    def __init__(
        self,
        asset_key: AssetKey,
        log: Logger,
        *,
        execution: Execution | None = None,
        resources: Any = None,
        op_config: Any = None,
    ) -> None:
        self.asset_key = asset_key
        self.log = log
        self.execution = execution or Execution()
        self.resources = resources
        self.op_config = op_config
        self.output_metadata: dict[str, Any] = {}

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.execution.run_id

    @property
    def retry_number(self) -> int:
        """How many attempts were made before this one."""
        return self.execution.attempt - 1

    @property
    def idempotency_key(self) -> str:
        """A text that is the same for every attempt at this task in this run."""
        return f"{self.execution.run_id}:{self.execution.task_key}"

    @property
    def fencing_token(self) -> int:
        """A number that is greater than that of every earlier execution of this task."""
        return self.execution.fencing_token

    @property
    def instance(self) -> Any:
        """The workspace, to ask what was made and what ran: see `ServoInstance`."""
        held = self.execution.instance
        return held() if callable(held) else held

    @property
    def has_tag(self) -> Any:
        """Whether the run has a tag of this name."""
        return self.execution.run_tags.__contains__

    def get_tag(self, key: str) -> str | None:
        """The value of a tag of the run."""
        return self.execution.run_tags.get(key)

    def add_output_metadata(self, metadata: Mapping[str, Any], **_: Any) -> None:
        """Say something about what this execution makes."""
        self.output_metadata.update(metadata)

    add_asset_metadata = add_output_metadata
