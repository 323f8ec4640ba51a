"""Automation: which evaluation of conditions counts, and what is recorded of it.

Evaluations of a sensor are numbered without gaps. Only the next number is accepted. So if two
processes evaluate the same, the first counts, and the other is refused together with the runs it
requested: it did not see the effects of the first. The same evaluation sent again gets the same
answer.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.envelope import Event
from servo.core.fold.bounds import instant, number
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.state.rows.conditions import (
    AutomationEvaluationRow,
    AutomationSensorRow,
    AutomationStateRow,
)
from servo.core.state.state import State
from servo.core.state.states import SensorStatus


def _on_ticked(state: State, event: AutomationTicked, ctx: Ctx) -> None:
    row = state.automation_sensors.rows.get(event.sensor_id)
    if row is not None and (row.tick, row.last_eval_id) == (event.tick, event.eval_id):
        raise Repeated(whole=True, tick=row.tick)
    _check_next(state, event, row)
    number(event.applied_seq, "applied_seq", least=row.applied_seq if row else 0, most=state.seq)
    number(event.requested_count, "requested_count")
    asked = state.ts if event.requested_count else (row.last_requested_at if row else None)
    new = AutomationSensorRow(
        sensor_id=event.sensor_id,
        tick=event.tick,
        last_eval_id=event.eval_id,
        applied_seq=event.applied_seq,
        ticked_at=instant(event.ticked_at, "ticked_at"),
        requested_count=event.requested_count,
        run_keys=event.run_keys,
        last_requested_at=asked,
        row_version=state.seq,
    )
    state.automation_sensors.put(event.sensor_id, new)
    ctx.data["tick"] = event.tick


def _check_next(state: State, event: AutomationTicked, row: AutomationSensorRow | None) -> None:
    sensor = state.sensor_state.rows.get(event.sensor_id)
    if sensor is not None and sensor.status is SensorStatus.PAUSED:
        raise Rejected(f"sensor_paused: the sensor {event.sensor_id} is paused; resume it first")
    if event.tick != (row.tick if row else 0) + 1:
        raise Rejected("stale_tick: another evaluation was recorded first", conflict=True)


def _on_evaluated(state: State, event: AutomationEvaluated, ctx: Ctx) -> None:
    if not any(_heads(head, event) for head in ctx.batch.events):
        raise Rejected("tick_missing: the batch lacks the tick that the evaluation belongs to")
    number(event.requested_count, "requested_count")
    key = (event.sensor_id, event.asset_key)
    old = state.automation_state.rows.get(key)
    if old is not None and old.tick == event.tick:
        raise Rejected(
            f"evaluated_twice: tick {event.tick} already has a result for {event.asset_key}"
        )
    row = _remembered(state, event, old)
    state.automation_state.put(key, row)
    if event.tree or event.requested_count:
        told = AutomationEvaluationRow(
            sensor_id=event.sensor_id,
            asset_key=event.asset_key,
            tick=event.tick,
            requested=event.requested,
            requested_count=event.requested_count,
            tree=event.tree,
            evaluated_at=state.ts,
            row_version=state.seq,
        )
        state.automation_evaluations.put((*key, event.tick), told)


def _heads(head: object, event: AutomationEvaluated) -> bool:
    return isinstance(head, AutomationTicked) and (head.sensor_id, head.tick) == (
        event.sensor_id,
        event.tick,
    )


def _remembered(
    state: State, event: AutomationEvaluated, old: AutomationStateRow | None
) -> AutomationStateRow:
    row = old or AutomationStateRow(
        sensor_id=event.sensor_id,
        asset_key=event.asset_key,
        tick=event.tick,
        evaluated_at=state.ts,
        row_version=state.seq,
    )
    return replace(
        row,
        tick=event.tick,
        cursor=row.cursor if event.cursor is None else event.cursor,
        requested=event.requested,
        requested_count=event.requested_count,
        last_requested_at=state.ts if event.requested_count else row.last_requested_at,
        evaluated_at=state.ts,
        row_version=state.seq,
    )


RULES: Mapping[type[Event], FoldRule] = {
    AutomationTicked: _on_ticked,
    AutomationEvaluated: _on_evaluated,
}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {}
