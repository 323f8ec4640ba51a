"""Which function answers which request to an evaluator."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import (
    DescribeCode,
    EvaluateConditions,
    EvaluateMessages,
    EvaluateSensor,
    EvaluateTick,
    EvaluateTicks,
    EvaluatorAnswer,
    EvaluatorQuestion,
    PlanBackfill,
    PlanChunks,
    PlanRetry,
    PlanRun,
    PreviewConditions,
)
from servo.code.evaluator.redacted_answers import redacted_answer
from servo.processes.redacted_output import redacted_prints
from servo.sdk.resources.redaction import hidden

HANDLERS: Mapping[type[Any], tuple[str, str]] = {
    EvaluateTick: ("schedules", "evaluate_tick"),
    EvaluateTicks: ("schedules", "evaluate_ticks"),
    EvaluateConditions: ("conditions", "judge"),
    EvaluateSensor: ("sensors", "evaluate_sensor"),
    EvaluateMessages: ("sensors", "evaluate_messages"),
    PlanChunks: ("backfills", "plan_chunks"),
    PreviewConditions: ("condition_previews", "preview_conditions"),
    PlanBackfill: ("backfill_plans", "plan_backfill"),
    PlanRun: ("run_plans", "plan_run"),
    PlanRetry: ("run_plans", "plan_retry"),
    DescribeCode: ("descriptions", "describe_code"),
}
"""The module and function for each question. `servo materialize` only plans a run, and must not
wait for the imports of all the others.
"""


def answer_to(loaded: LoadedLocation, question: EvaluatorQuestion) -> EvaluatorAnswer:
    """The answer to a question, without secrets."""
    return redacted_answer(handler_of(type(question))(loaded, question))


def handler_of(question: type[Any]) -> Callable[[LoadedLocation, Any], EvaluatorAnswer]:
    """The function that answers questions of a kind."""
    module, name = HANDLERS[question]
    return getattr(import_module(f"servo.code.evaluator.{module}"), name)


class EvaluatorHere:
    """Answers in this process, whose command has loaded the code anyway.

    It has the interface of an evaluator process, but no timeout: only the user can interrupt it.
    """

    def __init__(self, loaded: LoadedLocation) -> None:
        self._loaded = loaded

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """The answer to a question, however long it takes."""
        del seconds
        with redacted_prints(hidden()):
            return answer_to(self._loaded, question)
