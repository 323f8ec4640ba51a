"""Requests that need user code, and the results of evaluations.

Operations never import user code. They ask an evaluator of the code location: a separate process,
or the code that a command has loaded.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from servo.code.evaluator.messages import Evaluated, EvaluatorQuestion, Refused, RequestedRun
from servo.code.evaluator.refusals import error_of
from servo.errors import Internal, NotFound, Unavailable
from servo.operations.interface.roles import step
from servo.workspace.workspace import Workspace

T = TypeVar("T")

NO_SALT = bytes(32)
PLAN_SECONDS = 600.0
"""How long an answer may take that a person waits for and can interrupt."""


class Evaluates(Protocol):
    """Answers questions that need the code of one location."""

    def ask(self, question: EvaluatorQuestion, seconds: float) -> Any:
        """The answer, or an answer with an error if there is none in time."""
        ...


def answer_from(evaluates: Evaluates, question: EvaluatorQuestion, kind: type[T]) -> T:
    """The answer to a question; its error if it was refused, `Unavailable` if there is none."""
    found = evaluates.ask(question, PLAN_SECONDS)
    if isinstance(found, kind):
        return found
    if isinstance(found, Refused):
        raise error_of(found)
    if isinstance(found, Evaluated):  # the evaluator has hung, ended, or could not import the code
        raise Unavailable(found.error, remedy="fix the code and try again", may_have_applied=False)
    raise Internal(f"{type(question).__name__} was answered with {type(found).__name__}")


class RequestPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A run that user code requests: its key and id, its assets and its number of tasks."""

    run_key: str
    run_id: str
    assets: list[str]
    task_count: int
    labels: dict[str, str]


def previews_of(runs: Sequence[RequestedRun]) -> list[RequestPreview]:
    """The runs that an evaluation requests. Of a large plan only the number of tasks is known."""
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


@step
def run_id_salt(workspace: Workspace) -> bytes:
    """What the ids of a workspace's runs are made with; zeros where nothing was ever written."""
    try:
        return workspace.read(lambda snapshot: bytes.fromhex(snapshot.manifest.identity))
    except NotFound:
        return NO_SALT
