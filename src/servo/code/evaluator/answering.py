"""Who answers which question, with the code of a location at hand."""

from collections.abc import Callable, Mapping
from typing import Any

from servo.code.evaluator.backfill_plans import plan_backfill
from servo.code.evaluator.backfills import plan_chunks
from servo.code.evaluator.condition_previews import preview_conditions
from servo.code.evaluator.conditions import judge
from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import (
    Answer,
    EvaluateConditions,
    EvaluateMessages,
    EvaluateSensor,
    EvaluateTick,
    EvaluateTicks,
    PlanBackfill,
    PlanChunks,
    PreviewConditions,
    Question,
)
from servo.code.evaluator.schedules import evaluate_tick, evaluate_ticks
from servo.code.evaluator.sensors import evaluate_messages, evaluate_sensor

HANDLERS: Mapping[type[Any], Callable[[LoadedLocation, Any], Answer]] = {
    EvaluateTick: evaluate_tick,
    EvaluateTicks: evaluate_ticks,
    EvaluateConditions: judge,
    EvaluateSensor: evaluate_sensor,
    EvaluateMessages: evaluate_messages,
    PlanChunks: plan_chunks,
    PreviewConditions: preview_conditions,
    PlanBackfill: plan_backfill,
}


def answer_to(loaded: LoadedLocation, question: Question) -> Answer:
    """The answer to a question."""
    return HANDLERS[type(question)](loaded, question)


class EvaluatorHere:
    """Answers in this process, whose command has loaded the code anyway.

    It is asked as an evaluator process is. Nobody stops what takes too long but the person at the
    keyboard.
    """

    def __init__(self, loaded: LoadedLocation) -> None:
        self._loaded = loaded

    def ask(self, question: Question, seconds: float) -> Answer:
        """The answer to a question, however long it takes."""
        del seconds
        return answer_to(self._loaded, question)
