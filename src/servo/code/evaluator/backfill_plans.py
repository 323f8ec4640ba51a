"""Planning a backfill before there is one: which partitions it makes, and in which runs."""

from collections.abc import Sequence

from servo.code.backfills.requests import outline, standing
from servo.code.conditions.sets import Sets
from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import BackfillPlanned, PlanBackfill, Refused
from servo.code.evaluator.refusals import refused
from servo.core.keys import AssetKey
from servo.planning.backfills import Backfilled
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import Moment
from servo.sdk.selection.selecting import selected


def plan_backfill(loaded: LoadedLocation, question: PlanBackfill) -> BackfillPlanned | Refused:
    """What a backfill would do, given the current end of the ledger."""
    try:
        keys = _chosen(loaded.project, question.select)
        held, now = loaded.records, loaded.clock.now()
        snapshot = snapshot_at(held.store, held.paths, PRESENT)
        backfilled = Backfilled(loaded.project, keys, Moment(now, Sets(snapshot)))
        found = outline(backfilled, question.asked, standing(snapshot, now, backfilled))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings may be user code
        return refused(error)
    return BackfillPlanned(outline=found)


def _chosen(project: Project, select: Sequence[str]) -> list[AssetKey]:
    """The selected assets; without a selection, those that have partitions."""
    if not select:
        divided = [key for key in project.order if project.specs[key].partitions_def is not None]
        return divided or project.order
    return selected(project, select)
