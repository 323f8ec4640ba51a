"""Backfills of the asset `ns/a` and their chunks, as events that a test can tell a leader."""

from typing import Any

from servo.core.events.backfills import BackfillChunkPlanned, BackfillCreated, ExplicitSelector
from servo.core.events.runs import BackfillSource, RunRequested


def backfill_created(*keys: str, name: str = "bf", **fields: Any) -> BackfillCreated:
    """The request of a backfill of these partitions."""
    values: dict[str, Any] = {
        "client_request_id": name,
        "request_fingerprint": "fp",
        "asset_selection": ("ns/a",),
        "selector": ExplicitSelector(count=len(keys)),
        "partition_keys": keys,
        "total_partitions": len(keys),
        **fields,
    }
    return BackfillCreated(backfill_id=name, **values)


def backfill_chunk(
    created: BackfillCreated, index: int = 0, *, run_id: str = "run_1", **fields: Any
) -> tuple[BackfillChunkPlanned, RunRequested]:
    """A chunk of a backfill that nobody has changed, and the request of its run."""
    start = index * created.chunk_size
    values: dict[str, Any] = {
        "expected_state_version": 1,
        "partition_keys": created.partition_keys[start : start + created.chunk_size],
        "run_key": f"key-{run_id}",
        "request_fingerprint": "fp",
        **fields,
    }
    chunk = BackfillChunkPlanned(backfill_id=created.backfill_id, chunk_index=index, **values)
    request = RunRequested(
        run_id=run_id,
        run_key=chunk.run_key,
        request_fingerprint=chunk.request_fingerprint,
        source=BackfillSource(backfill_id=created.backfill_id, chunk_index=index),
    )
    return chunk, request
