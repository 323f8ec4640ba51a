"""Planning chunks of backfills.

The plan of a chunk depends on the current code: assets, partitions and mappings may have changed
since the backfill was created. If a chunk cannot be planned, its answer is the reason, and the
others are planned nevertheless.
"""

from collections.abc import Mapping, Sequence

import msgspec

from servo.code.backfills.chunks import chunk_run, frozen_partitions
from servo.code.evaluator.loaded_location import LoadedLocation, told
from servo.code.evaluator.messages import Evaluated, EvaluatedMany, PlanChunks, RequestedRun
from servo.controllers.backfills import chunk_slice
from servo.core.keys import AssetKey
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow
from servo.core.tags import JOB_LABEL
from servo.errors import Invalid, NotFound
from servo.planning.assets import plan_partitions
from servo.planning.backfills import Backfilled, plain_key
from servo.planning.job_retries import with_job_retries
from servo.sdk.partitions.mapping_resolution import Moment

KEPT = 4


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill as the code sees it: its partitions as they are stored and as people write them.

    `besides` are assets with other partitions, by the chunk that materializes them.
    """

    typed: Sequence[str]
    plain: Sequence[str | None]
    assets: Sequence[AssetKey]
    owner: AssetKey
    besides: Mapping[int, Mapping[AssetKey, Sequence[str]]]


def plan_chunks(loaded: LoadedLocation, asked: PlanChunks) -> EvaluatedMany:
    """The runs of some chunks of a backfill, or why there is none."""
    row = asked.backfill
    try:
        prepared = _prepared(loaded, row)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings may be user code
        wrong = Evaluated(error=told(error))
        return EvaluatedMany(answers=tuple(wrong for _ in asked.chunks))
    return EvaluatedMany(answers=tuple(_chunk(loaded, row, prepared, n) for n in asked.chunks))


def _chunk(loaded: LoadedLocation, row: BackfillRow, prepared: Prepared, index: int) -> Evaluated:
    try:
        plan = _plan(loaded, row, prepared, index)
        requested, planned = chunk_run(loaded.records, row, index, plan, prepared.typed)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings may be user code
        return Evaluated(error=told(error))
    return Evaluated(runs=(RequestedRun(requested=requested, planned=planned),))


def _plan(loaded: LoadedLocation, row: BackfillRow, prepared: Prepared, index: int) -> Plan:
    place = chunk_slice(row, index)
    own: list[str] = []
    for plain, typed in zip(prepared.plain[place], prepared.typed[place], strict=True):
        if plain is None:
            raise NotFound(
                f"{prepared.owner} has no partition {typed!r}",
                remedy="its partitions_def has changed: create another backfill",
            )
        own.append(plain)
    wanted: dict[AssetKey, Sequence[str]] = dict.fromkeys(prepared.assets, own)
    plan = plan_partitions(
        loaded.project,
        {**wanted, **prepared.besides.get(index, {})},
        now=loaded.clock.now(),
        dynamic_partitions=loaded.instance(),
    )
    job = loaded.project.jobs.get(row.labels.get(JOB_LABEL, ""))
    return with_job_retries(plan, loaded.project, job)


def _prepared(loaded: LoadedLocation, row: BackfillRow) -> Prepared:
    """A backfill as the code sees it; worked out once, as the list may be long."""
    known = loaded.backfills.get(row.backfill_id)
    if known is None:
        while len(loaded.backfills) >= KEPT:
            _ = loaded.backfills.pop(next(iter(loaded.backfills)))
        known = loaded.backfills[row.backfill_id] = _prepare(loaded, row)
    return known


def _prepare(loaded: LoadedLocation, row: BackfillRow) -> Prepared:
    keys = [AssetKey.parse(text) for text in row.asset_selection]
    if gone := [key for key in keys if key not in loaded.project.specs]:
        raise Invalid(
            f"{gone[0]} is no longer an asset", remedy="define it again, then retry what failed"
        )
    typed = frozen_partitions(loaded.records.store, loaded.records.paths, row)
    backfilled = Backfilled(loaded.project, keys, Moment(loaded.clock.now(), loaded.instance()))
    one = backfilled.of(backfilled.owner(typed))
    plain = [plain_key(one.definition, key) for key in typed]
    chunks = [plain[chunk_slice(row, n)] for n in range(row.total_chunks)]
    known = [[key for key in chunk if key is not None] for chunk in chunks]
    return Prepared(
        typed=typed,
        plain=plain,
        assets=one.same,
        owner=one.owner,
        besides=one.assignment(known) if one.linked else {},
    )
