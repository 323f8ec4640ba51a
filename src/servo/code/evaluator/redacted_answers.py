"""Every answer of an evaluator, redacted on its way out."""

from servo.code.backfills.requests import Outline
from servo.code.evaluator.messages import (
    ConditionForecast,
    Evaluated,
    EvaluatorAnswer,
    Refused,
    RunPlanned,
)
from servo.sdk.resources.redaction import Redaction, hidden
from servo.sdk.resources.struct_redaction import Rules, kept, redact
from servo.workspace.redacted_events import RULES, redact_tags_of_runs

ANSWER_RULES: Rules = {
    **RULES,
    # A cursor of user code is refused if it holds a secret; others are Servo's.
    Evaluated: kept("cursor", "cause", "correlation"),
    ConditionForecast: kept("asset_key", "sensor_id", "requested"),
    Outline: kept("assets", "partitions", "typed"),
    # A configuration of a job is refused if it holds a secret; others come with the question.
    RunPlanned: kept("location", "config") | {"labels": redact_tags_of_runs},
    Refused: kept("kind"),
}
"""The fields of answers that are not simply redacted."""


def redacted_answer(answer: EvaluatorAnswer, known: Redaction | None = None) -> EvaluatorAnswer:
    """An answer without the secrets that this process has read."""
    return redact(answer, hidden() if known is None else known, ANSWER_RULES)
