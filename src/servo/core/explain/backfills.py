"""The backfills that an asset is in, and where in them a partition is."""

from typing import assert_never

from msgspec.structs import replace

from servo.core.events.backfills import BackfillState
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.records import Records, Subject
from servo.core.explain.words import partition, plural
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.states import ChunkState


def backfills(records: Records, subject: Subject) -> list[Finding]:
    """The active backfills of an asset, and the newest one that ended."""
    rows = records.backfills_of(subject.asset_key)
    if subject.partition_key is not None:
        rows = [row for row in rows if _may_hold(row, subject.partition_key)]
    going = [row for row in rows if row.finished_at is None]
    ended = [row for row in rows if row.finished_at is not None][:1]
    return [_backfill(records, row, subject) for row in (*going, *ended)]


def _may_hold(row: BackfillRow, partition_key: str) -> bool:
    # The content of a list stored by digest is unknown until its chunks are planned.
    return not row.partition_keys or partition_key in row.partition_keys


def _backfill(records: Records, row: BackfillRow, subject: Subject) -> Finding:
    name = row.backfill_id
    done = f"{row.partitions_succeeded} of {plural(row.total_partitions, 'partition')} materialized"
    bad = f", {row.partitions_failed} failed" if row.partitions_failed else ""
    by = f" by {row.changed_by}" if row.changed_by else ""
    found = Finding(
        what=What.BACKFILL,
        status=FindingStatus.WAITS,
        subject=name,
        text=f"the backfill {name}",
        at=row.created_at,
        seq=row.row_version,
        because=_chunk(records, row, subject),
    )
    match row.state:
        case BackfillState.PAUSED:
            return replace(
                found,
                text=f"{found.text} is paused{by}: {done}{bad}",
                next="resume it",
                command=f"servo backfill resume {name}",
            )
        case BackfillState.PENDING | BackfillState.RUNNING:
            active = f"{row.active_chunks} of at most {plural(row.max_concurrent_runs, 'run')}"
            text = f"{found.text} is running: {done}{bad}; {active} active"
            return replace(found, text=text, next=_next_chunk(records, row))
        case BackfillState.CANCELLING | BackfillState.CANCELLED:
            ended = row.state is BackfillState.CANCELLED
            text = f"{found.text} {'was' if ended else 'is being'} cancelled{by}: {done}{bad}"
            return replace(found, status=FindingStatus.NOTE, text=text)
        case BackfillState.SUCCEEDED:
            return replace(found, status=FindingStatus.NOTE, text=f"{found.text} succeeded: {done}")
        case BackfillState.FAILED:
            return replace(
                found,
                status=FindingStatus.FAILED,
                text=f"{found.text} failed: {done}{bad}",
                next="retry what failed",
                command=f"servo backfill retry-failed {name}",
            )
        case _:
            assert_never(row.state)


def _next_chunk(records: Records, row: BackfillRow) -> str:
    """What a running backfill waits for."""
    if row.planned_chunks == row.total_chunks:
        return "its last runs are finishing"
    after = f"chunk {row.planned_chunks + 1} of {row.total_chunks} is planned"
    if row.active_chunks >= row.max_concurrent_runs:
        return f"{after} when one of its runs has finished"
    quota = records.quota("workspace")
    limit = None if quota is None else quota.max_backfill_concurrency
    if limit is not None and records.active_chunks() >= limit:
        return f"{after} when fewer runs are active: all backfills together may have {limit}"
    return f"{after} next"


def _chunk(records: Records, row: BackfillRow, subject: Subject) -> tuple[Finding, ...]:
    """Where in a backfill a partition is."""
    key = subject.partition_key
    if key is None:
        return ()
    mine = [chunk for chunk in records.chunks(row.backfill_id) if key in chunk.partition_keys]
    if mine:
        return (_planned(records, row, mine[0], key),)
    if key not in row.partition_keys:
        return ()
    number = row.partition_keys.index(key) // row.chunk_size + 1
    never = "was never" if row.finished_at is not None else "is not"
    text = f"{partition(key)} is in chunk {number} of {row.total_chunks}, which {never} planned"
    return (
        Finding(what=What.BACKFILL, status=FindingStatus.WAITS, subject=row.backfill_id, text=text),
    )


def _planned(records: Records, row: BackfillRow, chunk: BackfillChunkRow, key: str) -> Finding:
    run = None if chunk.run_id is None else records.run(chunk.run_id)
    told = "" if run is None else f", run {run.run_id} is {run.state.value}"
    fate = "failed in" if key in chunk.failed_partition_keys else "is in"
    bad = chunk.state is ChunkState.FAILED and key in chunk.failed_partition_keys
    number = chunk.chunk_index + 1
    text = (
        f"{partition(key)} {fate} chunk {number} of {row.total_chunks} ({chunk.state.value}){told}"
    )
    return Finding(
        what=What.BACKFILL,
        status=FindingStatus.FAILED if bad else FindingStatus.NOTE,
        subject=row.backfill_id,
        text=text,
        at=chunk.planned_at,
        seq=chunk.row_version,
    )
