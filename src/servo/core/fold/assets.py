"""Assets: deployed, checked, judged, observed, wiped.

`latest` decides which output is the latest; this module has the events about outputs.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from servo.core.definitions import as_defined
from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.envelope import Event
from servo.core.events.tasks import Gate
from servo.core.fold.bounds import instant, number
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected
from servo.core.fold.latest import (
    asset_of,
    forget_latest,
    forget_latest_partition,
    observe,
    partition_of,
    promote,
    put_made,
    record_attempt,
    record_cost,
    release,
    wipe,
)
from servo.core.fold.parking import unknown_task
from servo.core.retention import MOST_AGE_MS
from servo.core.state.rows.assets import (
    CheckResultRow,
    DynamicPartitionRow,
    MaterializationRow,
    PartitionSetRow,
)
from servo.core.state.state import State

__all__ = ["NEEDS", "RULES", "promote", "record_attempt", "record_cost"]


def _on_deployed(state: State, event: DefinitionsDeployed, ctx: Ctx) -> None:
    del ctx
    assets = event.assets
    if event.definitions_digest:
        if assets or event.definitions_digest not in state.definitions:
            raise Rejected(
                f"definitions_missing: the stored definitions {event.definitions_digest} cannot be "
                "read, or the event also lists definitions inline"
            )
        assets = state.definitions[event.definitions_digest]
    defined = {definition.asset_key: definition for definition in assets}
    if "" in defined or len(defined) != len(assets):
        raise Rejected("invalid_definitions: an asset has no key, or two assets have the same key")
    for definition in assets:
        _define(state, event, definition)
    for row in tuple(state.assets.values()):
        if row.defined and row.location == event.location and row.asset_key not in defined:
            gone = replace(row, defined=False, row_version=state.seq)
            state.assets.put(row.asset_key, gone)


def _define(state: State, event: DefinitionsDeployed, definition: AssetDefinition) -> None:
    """Store the definition of an asset; an unchanged one keeps its row."""
    _check_at_least_one(definition.retention_versions, "retention_versions")
    _check_at_least_one(definition.retention_age_ms, "retention_age_ms")
    old = asset_of(state, definition.asset_key)
    new = as_defined(old, event.location, definition)
    if new != old:
        changed = old.code_changed_at if new.code_version == old.code_version else state.ts
        new = replace(
            new,
            deployment_id=event.deployment_id,
            code_changed_at=changed,
            row_version=state.seq,
        )
        state.assets.put(definition.asset_key, new)


def _check_at_least_one(value: int | None, what: str) -> None:
    if value is not None:
        _ = number(value, what, least=1, most=MOST_AGE_MS)


def _on_partitions_changed(state: State, event: DynamicPartitionsChanged, ctx: Ctx) -> None:
    del ctx
    if not event.set_name:
        raise Rejected("invalid_partitions: the partition set has no name")
    added = dict.fromkeys(event.added)
    for key in event.removed:
        if key in added:
            raise Rejected(f"invalid_partitions: {key!r} is both added and removed")
        state.dynamic_partitions.drop((event.set_name, key))
    new = [key for key in added if (event.set_name, key) not in state.dynamic_partitions]
    for place, key in enumerate(new, _take_numbers(state, event.set_name, len(new))):
        row = DynamicPartitionRow(
            set_name=event.set_name,
            partition_key=key,
            added_at=state.ts,
            number=place,
            row_version=state.seq,
        )
        state.dynamic_partitions.put((event.set_name, key), row)


def _take_numbers(state: State, set_name: str, count: int) -> int:
    """Reserve `count` numbers that no key of the set has had; the first of them."""
    row = state.partition_sets.rows.get(set_name)
    before = 0 if row is None else row.numbered
    if count:
        after = PartitionSetRow(set_name=set_name, numbered=before + count, row_version=state.seq)
        state.partition_sets.put(set_name, after)
    return before + 1


# --- checks, decisions, observations --------------------------------------------------------------


def _on_check(state: State, event: CheckEvaluated, ctx: Ctx) -> None:
    del ctx
    key = (event.attempt_id, event.asset_key, event.check_name)
    if key in state.check_results:
        return  # not Repeated: the batch may end with a new result
    task = state.tasks.rows.get((event.run_id, event.task_key))
    if task is None:
        raise unknown_task(state, event.run_id)
    current = task.attempt_id == event.attempt_id and task.exec_id == event.exec_id
    if not event.exec_id or not current:
        raise Rejected("stale: not the current execution")
    row = CheckResultRow(
        run_id=event.run_id,
        task_key=event.task_key,
        attempt_id=event.attempt_id,
        asset_key=event.asset_key,
        partition_key=event.partition_key,
        check_name=event.check_name,
        passed=event.passed,
        severity=event.severity,
        blocking=event.blocking,
        message=event.message,
        metadata=event.metadata,
        materialization_id=event.materialization_id,
        evaluated_at=state.ts,
        row_version=state.seq,
    )
    state.check_results.put(key, row)
    if event.asset_key:
        asset = asset_of(state, event.asset_key)
        checked = replace(asset, last_check_passed=event.passed, row_version=state.seq)
        state.assets.put(event.asset_key, checked)


def _on_quarantine_decided(state: State, event: QuarantineDecided, ctx: Ctx) -> None:
    row = state.materializations.rows.get(event.materialization_id)
    if row is None:
        raise Rejected(
            f"unknown_materialization: there is no materialization {event.materialization_id}"
        )
    if row.gating_decision is not Gate.QUARANTINED or row.decided_at is not None:
        raise Rejected(
            "not_in_quarantine: the output was never quarantined, or it has already been approved "
            "or rejected",
            conflict=True,
        )
    row = replace(
        row,
        promoted=event.approved,
        decided_by=event.decided_by,
        decision_reason=event.reason,
        decided_at=state.ts,
        row_version=state.seq,
    )
    state.materializations.put(row.materialization_id, row)
    ctx.data["latest"] = int(event.approved and release(state, row))


def _on_observed(state: State, event: AssetObserved, ctx: Ctx) -> None:
    del ctx
    if not event.asset_key:
        raise Rejected("invalid_asset: the asset key is empty")
    seen = state.ts if event.observed_at is None else instant(event.observed_at, "observed_at")
    observe(state, event.asset_key, event.partition_key, event.data_version, seen)


def _on_reported(state: State, event: AssetReported, ctx: Ctx) -> None:
    if event.materialization_id in state.materializations:
        raise Rejected(
            f"known_materialization: the id {event.materialization_id} is already in use; "
            "choose another",
            conflict=True,
        )
    made = MaterializationRow(
        materialization_id=event.materialization_id,
        asset_key=event.asset_key,
        partition_key=event.partition_key,
        run_id=event.run_id,
        task_key=event.task_key,
        attempt=0,
        exec_id="",
        data_version=event.data_version,
        code_version=event.code_version,
        metadata=event.metadata,
        created_at=state.ts,
        created_seq=state.seq,
        created_index=ctx.index_in(state.seq),
        row_version=state.seq,
    )
    put_made(state, made)


def _on_expired(state: State, event: OutputsExpired, ctx: Ctx) -> None:
    """Record expired outputs; refuse the whole event if one of them must be kept."""
    del ctx
    for name in event.materialization_ids:
        row = state.materializations.rows.get(name)
        if row is None:
            raise Rejected(f"unknown_materialization: there is no materialization {name}")
        if row.expired_at is None:
            _check_dispensable(state, row)
            gone = replace(row, expired_at=state.ts, row_version=state.seq)
            state.materializations.put(name, gone)


def _check_dispensable(state: State, row: MaterializationRow) -> None:
    """Refuse to expire an output in quarantine, or the latest of its asset or partition."""
    if row.gating_decision is Gate.QUARANTINED and row.decided_at is None:
        raise Rejected(
            "in_quarantine: the output is in quarantine; approve or reject it first", conflict=True
        )
    if not row.output_uri:
        raise Rejected("no_data: Servo stores no data for this output")
    latest = [state.assets.rows[row.asset_key].last_materialization_id]
    if row.partition_key is not None:
        partition = partition_of(state, row.asset_key, row.partition_key)
        latest.append(partition.last_materialization_id)
    if row.materialization_id in latest:
        raise Rejected(
            "latest_output: the latest output of an asset or partition does not expire",
            conflict=True,
        )


def _on_wiped(state: State, event: AssetWiped, ctx: Ctx) -> None:
    del ctx
    asset = state.assets.rows.get(event.asset_key)
    if asset is None:
        raise Rejected(f"unknown_asset: the workspace has no asset {event.asset_key}")
    if not event.partition_keys:
        wipe(state, asset)
        return
    for partition_key in event.partition_keys:
        if (event.asset_key, partition_key) in state.partitions:
            forget_latest_partition(state, partition_of(state, event.asset_key, partition_key))
    if asset.last_partition_key in event.partition_keys:
        forget_latest(state, asset)


def _needs_check(event: CheckEvaluated) -> Iterable[tuple[str, object]]:
    return (
        ("check_results", (event.attempt_id, event.asset_key, event.check_name)),
        ("runs", event.run_id),
        ("tasks", (event.run_id, event.task_key)),
    )


def _needs_keys(event: DynamicPartitionsChanged) -> Iterable[tuple[str, object]]:
    return [("dynamic_partitions", (event.set_name, key)) for key in event.added + event.removed]


def _needs_partition(event: AssetObserved) -> Iterable[tuple[str, object]]:
    return _partition(event.asset_key, event.partition_key)


def _needs_partitions(event: AssetWiped) -> Iterable[tuple[str, object]]:
    return [("partition_status", (event.asset_key, key)) for key in event.partition_keys]


def _needs_reported(event: AssetReported) -> Iterable[tuple[str, object]]:
    yield ("materializations", event.materialization_id)
    yield from _partition(event.asset_key, event.partition_key)


def _partition(asset_key: str, partition_key: str | None) -> Iterable[tuple[str, object]]:
    return () if partition_key is None else (("partition_status", (asset_key, partition_key)),)


def _needs_output(event: QuarantineDecided) -> Iterable[tuple[str, object]]:
    return (("materializations", event.materialization_id),)


def _needs_outputs(event: OutputsExpired) -> Iterable[tuple[str, object]]:
    return [("materializations", name) for name in event.materialization_ids]


def _then_output(state: State, event: QuarantineDecided) -> Iterable[tuple[str, object]]:
    return _partitions_of(state, (event.materialization_id,))


def _then_outputs(state: State, event: OutputsExpired) -> Iterable[tuple[str, object]]:
    return _partitions_of(state, event.materialization_ids)


def _partitions_of(state: State, outputs: Iterable[str]) -> Iterable[tuple[str, object]]:
    for name in outputs:
        row = state.materializations.rows.get(name)
        if row is not None:
            yield from _partition(row.asset_key, row.partition_key)


RULES: Mapping[type[Event], FoldRule] = {
    DefinitionsDeployed: _on_deployed,
    CheckEvaluated: _on_check,
    QuarantineDecided: _on_quarantine_decided,
    AssetObserved: _on_observed,
    AssetReported: _on_reported,
    OutputsExpired: _on_expired,
    AssetWiped: _on_wiped,
    DynamicPartitionsChanged: _on_partitions_changed,
}
NEEDS: NeedsTable = {
    CheckEvaluated: _needs_check,
    QuarantineDecided: _needs_output,
    AssetObserved: _needs_partition,
    AssetReported: _needs_reported,
    AssetWiped: _needs_partitions,
    DynamicPartitionsChanged: _needs_keys,
    OutputsExpired: _needs_outputs,
}
FURTHER_NEEDS: FurtherNeedsTable = {
    QuarantineDecided: _then_output,
    OutputsExpired: _then_outputs,
}
