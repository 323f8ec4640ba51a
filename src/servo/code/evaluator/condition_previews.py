"""What conditions would request now: a dry run of the next evaluation, which records nothing."""

from collections.abc import Sequence

from servo.code.evaluator.conditions import ConditionEvaluator
from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import (
    ConditionForecast,
    ConditionsPreviewed,
    PreviewConditions,
    Refused,
)
from servo.code.evaluator.refusals import refused
from servo.errors import NotFound
from servo.sdk.automation.graph import all_subjects, targeted, text_of
from servo.sdk.automation.sensors import sensors_of_conditions
from servo.sdk.definitions.project import Project


def preview_conditions(
    loaded: LoadedLocation, asked: PreviewConditions
) -> ConditionsPreviewed | Refused:
    """What the conditions of the selected assets would request now."""
    try:
        wanted = _chosen(loaded.project, asked.select)
        found = tuple(one for one in _forecasts(loaded) if one.asset_key in wanted)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings are user code
        return refused(error)
    return ConditionsPreviewed(forecasts=found)


def _chosen(project: Project, select: Sequence[str]) -> set[str]:
    chosen = targeted(project, list(select)) if select else all_subjects(project)
    return {text_of(one) for one in chosen}


def _forecasts(loaded: LoadedLocation) -> list[ConditionForecast]:
    """What every condition of a project would request, in the order of the graph."""
    found: dict[str, ConditionForecast] = {}
    for name in sensors_of_conditions(loaded.project):
        preview = _evaluator(loaded, name).preview(loaded.clock.now())
        for key, tree in preview.trees.items():
            asked = preview.requested.get(key, ())
            found[key] = ConditionForecast(
                asset_key=key, sensor_id=name, requested=asked, tree=tree
            )
    return [found[text] for one in all_subjects(loaded.project) if (text := text_of(one)) in found]


def _evaluator(loaded: LoadedLocation, name: str) -> ConditionEvaluator:
    try:
        return ConditionEvaluator(loaded, name)
    except NotFound:
        raise NotFound(
            "this workspace has no history to evaluate conditions on",
            remedy="materialize something first with `servo materialize`, or start `servo dev`",
        ) from None
