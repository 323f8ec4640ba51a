"""Evaluating the automation conditions of a project, one evaluation after another.

A room holds an evaluation that goes on: the facts as bitmaps, kept up to date from the ledger by
what changed. What has to outlive it is on record, so a room can be thrown away at any moment;
another one begins from the last evaluation that was committed, with everything since as its news.
That is also done when partitions came or went, and when an evaluation was refused because another
was first.

What is asked for in one evaluation is one run: its plan has the order that the graph demands, and
a failure concerns what depends on it.
"""

from datetime import datetime

import msgspec

from servo.core.automation.evaluating import Evaluator, Tick
from servo.core.automation.recording import Position, events_of
from servo.core.automation.trees import Tree
from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.runs import AutomationSource
from servo.core.keys import AssetKey
from servo.core.state.rows.conditions import AutomationSensorRow
from servo.core.state.state import State
from servo.errors import NotFound
from servo.projection.follower import Follower
from servo.projection.time_travel import snapshot_at
from servo.sdk.condition_graph import Conditions, conditions_of
from servo.sdk.condition_sensors import assets_of_sensor, run_tags_of
from servo.sdk.mapping_resolution import WHOLE
from servo.worker.condition_facts import Facts
from servo.worker.condition_news import News
from servo.worker.evaluating.desk import Desk, told
from servo.worker.evaluating.messages import AskedRun, Judge, Judged


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What the conditions of a sensor would ask for, and how each of them stands.

    `requested` are partitions by asset, `""` for an asset without any.
    """

    requested: dict[str, tuple[str, ...]]
    trees: dict[str, Tree]
    next_due: datetime | None = None


class Room:
    """The conditions of one sensor, under evaluation."""

    def __init__(self, desk: Desk, sensor_id: str) -> None:
        self._desk = desk
        self._sensor_id = sensor_id
        self._chosen = assets_of_sensor(desk.project, sensor_id)
        records = desk.records
        self._follower = Follower(records.store, records.paths)
        self._evaluator: Evaluator | None = None
        self._conditions: Conditions
        self._news: News
        self._until: datetime | None = None

    def judge(self, now: datetime) -> Judged:
        """Evaluate; what is to be committed, if anything."""
        evaluator = self._up_to_date(now)
        tick = evaluator.tick(now)
        due = evaluator.next_due()
        if not tick.durable:
            return Judged(next_due=due, seq=self._follower.seq)
        row = self._row()
        number = 1 if row is None else row.tick + 1
        eval_id = f"{self._sensor_id}:{number}:{self._desk.token()}"
        position = Position(
            sensor_id=self._sensor_id,
            tick=number,
            eval_id=eval_id,
            applied_seq=self._follower.seq,
        )
        run = self._run(tick, position, now)
        keys = () if run is None else (run.requested.run_key,)
        return Judged(
            ticked=events_of(evaluator, tick, position, keys),
            runs=() if run is None else (run,),
            next_due=due,
            seq=self._follower.seq,
        )

    def preview(self, now: datetime) -> Preview:
        """What an evaluation would ask for, and why; nothing is stored, and nobody is told."""
        evaluator = self._up_to_date(now)
        tick = evaluator.tick(now)
        wanted = self._wanted(tick)
        return Preview(
            requested={key.canonical(): tuple(names) for key, names in wanted.items()},
            trees={key: evaluator.tree(key) for key in evaluator.plans},
            next_due=evaluator.next_due(),
        )

    def forget(self) -> None:
        """Begin anew from what is on record."""
        self._evaluator = None

    # --- keeping up -----------------------------------------------------------------------------

    def _up_to_date(self, now: datetime) -> Evaluator:
        changed = self._follower.catch_up()
        evaluator = self._evaluator
        moved = self._until is not None and now >= self._until
        if evaluator is None or changed is None or moved or "dynamic_partitions" in changed:
            return self._begin(now)
        self._news.tell(changed)
        return evaluator

    def _begin(self, now: datetime) -> Evaluator:
        state, desk, row = self._follower.state, self._desk, self._row()
        conditions = conditions_of(desk.project, now, store=desk.instance(), chosen=self._chosen)
        evaluator = Evaluator(
            conditions.graph,
            states=self._states(state),
            last=None if row is None else row.ticked_at,
        )
        held = desk.records
        facts = Facts(snapshot_at(held.store, held.paths, state.seq), conditions.spaces)
        facts.tell(evaluator, 0 if row is None else row.applied_seq)
        changes = [space.next_change(now) for space in conditions.spaces.values()]
        self._until = min((at for at in changes if at is not None), default=None)
        self._news = News(evaluator, conditions.spaces, state)
        self._conditions = conditions
        self._evaluator = evaluator
        return evaluator

    def _states(self, state: State) -> dict[str, str]:
        rows = state.automation_state.rows.values()
        return {row.asset_key: row.cursor for row in rows if row.sensor_id == self._sensor_id}

    def _row(self) -> AutomationSensorRow | None:
        return self._follower.state.automation_sensors.rows.get(self._sensor_id)

    # --- what is asked for ----------------------------------------------------------------------

    def _run(self, tick: Tick, position: Position, now: datetime) -> AskedRun | None:
        if not tick.requested:
            return None
        wanted = self._wanted(tick)
        labels = {**run_tags_of(self._desk.project, self._sensor_id)}
        labels[AUTOMATION_LABEL] = self._sensor_id
        source = AutomationSource(
            evaluation_id=position.eval_id, sensor_id=self._sensor_id, tick=position.tick
        )
        run_key = f"auto:{position.eval_id}"
        return self._desk.run_of(wanted, run_key, labels, source=source, now=now)

    def _wanted(self, tick: Tick) -> dict[AssetKey, list[str]]:
        """The partitions that an evaluation asks for, in the order of the graph."""
        return {
            key: [WHOLE if name is None else name for name in self._conditions.keys(found, bits)]
            for key in self._desk.project.order
            if (found := key.canonical()) and (bits := tick.requested.get(found, 0))
        }


def judge(desk: Desk, asked: Judge) -> Judged:
    """Answer what the conditions of a sensor ask for now."""
    try:
        room = desk.rooms.get(asked.sensor_id)
        if room is None:
            room = desk.rooms[asked.sensor_id] = Room(desk, asked.sensor_id)
        if asked.forget:
            room.forget()
        return room.judge(desk.clock.now())
    except NotFound as error:
        return Judged(error=told(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings are user code
        _ = desk.rooms.pop(asked.sensor_id, None)
        return Judged(error=told(error))
