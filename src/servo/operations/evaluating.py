"""Questions that need user code, and what their answers hold for whoever asked.

Operations never import user code. They ask an evaluator of the code location: a process of its
own, or the code that a command has loaded.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from servo.code.evaluator.messages import Question, RequestedRun
from servo.errors import NotFound
from servo.workspace.workspace import Workspace

NO_SALT = bytes(32)


class Evaluates(Protocol):
    """Answers questions that need the code of one location."""

    def ask(self, question: Question, seconds: float) -> Any:
        """The answer; one that says so if there is none within so many seconds."""
        ...


class RequestPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A run that user code asks for: its key and id, its assets and how many tasks it has."""

    run_key: str
    run_id: str
    assets: list[str]
    task_count: int
    labels: dict[str, str]


def previews_of(runs: Sequence[RequestedRun]) -> list[RequestPreview]:
    """The runs that an evaluation asks for. Of a large plan only the number of tasks is known."""
    return [
        RequestPreview(
            run_key=run.requested.run_key,
            run_id=run.requested.run_id,
            assets=list(dict.fromkeys(task.asset_key for task in run.planned.tasks)),
            task_count=len(run.planned.tasks) + sum(part.count for part in run.planned.segments),
            labels=dict(run.requested.labels),
        )
        for run in runs
    ]


def run_id_salt(workspace: Workspace) -> bytes:
    """What the ids of a workspace's runs are made with; zeros where nothing was ever written."""
    try:
        return workspace.read(lambda snapshot: bytes.fromhex(snapshot.manifest.identity))
    except NotFound:
        return NO_SALT
