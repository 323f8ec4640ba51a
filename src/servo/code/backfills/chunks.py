"""The partitions of a backfill, and the run of a chunk of it.

The request of a run depends only on the backfill and the number of the chunk, not on the process
that plans it or on changes of the code: so a chunk that is planned twice is the same chunk.
"""

from collections.abc import Sequence

from servo.code.evaluator.plan_store import PlanStore
from servo.controllers.backfills import chunk_slice
from servo.core.canonical import sha256_hex
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.runs import BackfillSource, PlanCreated, RunRequested
from servo.core.partition_lists import parse_partition_list
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow
from servo.core.tags import BACKFILL_LABEL, PRIORITIES
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.workspace.run_requests import WantedRun


def chunk_run(
    records: PlanStore, row: BackfillRow, index: int, plan: Plan, keys: Sequence[str]
) -> tuple[RunRequested, PlanCreated]:
    """The events that request and plan the run of a chunk; a large plan is stored first."""
    own = tuple(keys[chunk_slice(row, index)])
    priority = {PRIORITIES[0]: str(row.priority)} if row.priority else {}
    tags = {**row.labels, **priority, BACKFILL_LABEL: row.backfill_id}
    asked = {
        "backfill": row.backfill_id,
        "chunk": index,
        "assets": list(row.asset_selection),
        "partitions": list(own),
        "labels": tags,
    }
    wanted = WantedRun(
        plan=plan,
        run_key=f"backfill:{row.backfill_id}:chunk:{index}",
        tags=tags,
        source=BackfillSource(backfill_id=row.backfill_id, chunk_index=index),
        fingerprint=f"v1:sha256:{sha256_hex(asked)}",
        partitions=own,
        assets=row.asset_selection,
        text=f"backfill {row.backfill_id}: chunk {index + 1} of {row.total_chunks}",
        location=row.location or records.location,
    )
    return records.run_events(wanted)


def chunk_head(row: BackfillRow, index: int, requested: RunRequested) -> BackfillChunkPlanned:
    """The first event of the batch of a chunk, for the current state of its backfill."""
    return BackfillChunkPlanned(
        backfill_id=row.backfill_id,
        chunk_index=index,
        expected_state_version=row.state_version,
        partition_keys=requested.partition_selection,
        run_key=requested.run_key,
        request_fingerprint=requested.request_fingerprint,
    )


def frozen_partitions(store: ObjectStore, paths: Paths, row: BackfillRow) -> tuple[str, ...]:
    """The partitions of a backfill, in the order in which they are materialized."""
    if not row.partitions_digest:
        return row.partition_keys
    data = store.get(paths.plan(row.partitions_digest)).data
    return parse_partition_list(data, row.partitions_digest)
