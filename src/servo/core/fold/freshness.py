"""Freshness: the current state of an asset, and its history.

Freshness is evaluated outside the fold, with calendars and time zones; a replay must not depend on
those. So a change is an intent that names the state it is based on, and is refused if that has
changed.
"""

from collections.abc import Mapping

from servo.core.events.envelope import Event
from servo.core.events.freshness import FreshnessChanged
from servo.core.fold.bounds import instant
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.freshness import FreshnessState
from servo.core.state.rows.conditions import AssetFreshnessRow, FreshnessChangeRow
from servo.core.state.state import State


def _on_changed(state: State, event: FreshnessChanged, ctx: Ctx) -> None:
    asset = state.assets.rows.get(event.asset_key)
    if asset is None:
        raise Rejected(f"unknown_asset: the workspace has no asset {event.asset_key}")
    row = state.freshness.rows.get(event.asset_key)
    version = row.version if row else 0
    if row is not None and _is_known(row, event):
        raise Repeated(version=version)
    if event.expected_version != version:
        raise Rejected(
            f"freshness_version_changed: the version is now {version}; evaluate again",
            conflict=True,
        )
    if event.materialization_seq != asset.last_materialization_seq:
        raise Rejected(
            "materialization_changed: the asset has been materialized since; evaluate again",
            conflict=True,
        )
    changed = AssetFreshnessRow(
        asset_key=event.asset_key,
        state=event.state,
        version=version + 1,
        changed_at=instant(event.changed_at, "changed_at"),
        materialization_seq=event.materialization_seq,
        recorded_at=state.ts,
        row_version=state.seq,
    )
    state.freshness.put(event.asset_key, changed)
    told = FreshnessChangeRow(
        asset_key=event.asset_key,
        version=changed.version,
        state=event.state,
        previous=row.state if row else FreshnessState.UNKNOWN,
        changed_at=changed.changed_at,
        materialization_seq=event.materialization_seq,
        recorded_at=state.ts,
        row_version=state.seq,
    )
    state.freshness_changes.put((event.asset_key, changed.version), told)
    ctx.data["version"] = changed.version


def _is_known(row: AssetFreshnessRow, event: FreshnessChanged) -> bool:
    """Whether this is the change that brought the row."""
    return (row.version, row.state, row.materialization_seq) == (
        event.expected_version + 1,
        event.state,
        event.materialization_seq,
    )


RULES: Mapping[type[Event], FoldRule] = {FreshnessChanged: _on_changed}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {}
