"""Dry runs of automation conditions."""

from collections.abc import Sequence

from servo.code.evaluator.messages import (
    ConditionForecast,
    ConditionsPreviewed,
    PreviewConditions,
)
from servo.errors import NotFound
from servo.operations.interface.evaluating import Evaluates, answer_from
from servo.operations.interface.listing import Listing
from servo.operations.interface.roles import operation
from servo.workspace.workspace import Workspace

__all__ = ["ConditionForecast", "preview_automation"]


@operation
def preview_automation(
    workspace: Workspace, evaluates: Evaluates, select: Sequence[str] = ()
) -> Listing[ConditionForecast]:
    """What the conditions of the selected assets would request now, and why.

    Nothing is recorded or started. Paused sensors are evaluated too.
    """
    del workspace  # the evaluator reads it
    question = PreviewConditions(select=tuple(select))
    found = answer_from(evaluates, question, ConditionsPreviewed).forecasts
    if not found:
        raise NotFound(
            "no selected asset has an automation condition",
            remedy="add one: @asset(automation_condition=AutomationCondition.eager())",
        )
    return Listing(items=list(found))
