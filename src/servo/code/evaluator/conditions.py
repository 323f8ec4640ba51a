"""Evaluating the automation conditions of a project, one evaluation after another.

A `ConditionEvaluator` keeps its facts as bitmaps between evaluations, and updates them from the
ledger. What has to outlive it is recorded, so it can be discarded at any moment: a new one starts
from the last committed evaluation and treats everything since as new. That also happens when
partitions are added or removed, and when an evaluation is rejected because another came first.

All requests of one evaluation are one run: its plan follows the order of the graph, and a failure
affects only what depends on it. Requested checks run in the tasks of the assets that the run
materializes, and otherwise in separate tasks. If other partitions of a checked asset are
materialized, the checks are in a second run.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from servo.code.conditions.facts import WorkspaceFacts
from servo.code.conditions.news import News
from servo.code.conditions.sets import Sets
from servo.code.evaluator.loaded_location import CheckScope, LoadedLocation, told
from servo.code.evaluator.messages import ConditionsEvaluated, EvaluateConditions, RequestedRun
from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.recording import EvaluationPoint, Recording
from servo.core.automation.trees import Tree
from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.runs import AutomationSource
from servo.core.keys import AssetKey
from servo.core.state.rows.conditions import AutomationSensorRow
from servo.core.state.state import State
from servo.core.wrong_clocks import is_far_ahead
from servo.errors import NotFound
from servo.projection.read.follower import Follower
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.automation.graph import ConditionGraph, conditions_of, host_of, text_of
from servo.sdk.automation.sensors import run_tags_of, subjects_of_sensor
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.checks.selection import checks_of_assets
from servo.sdk.partitions.mapping_resolution import WHOLE, Moment


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What the conditions of a sensor would request, and the result of each condition.

    `requested` are partitions by asset, `""` for an asset without any.
    """

    requested: dict[str, tuple[str, ...]]
    trees: dict[str, Tree]
    next_due: datetime | None = None


class ConditionEvaluator:
    """The conditions of one sensor, under evaluation."""

    def __init__(self, loaded: LoadedLocation, sensor_id: str) -> None:
        self._loaded = loaded
        self._sensor_id = sensor_id
        self._chosen = subjects_of_sensor(loaded.project, sensor_id)
        records = loaded.records
        self._follower = Follower(records.store, records.paths)
        self._evaluator: Evaluator | None = None
        self._conditions: ConditionGraph
        self._moment: Moment
        self._news: News
        self._until: datetime | None = None
        self._judged_at: datetime | None = None

    def judge(self, now: datetime) -> ConditionsEvaluated:
        """Evaluate the conditions; the events to commit, if any."""
        evaluator = self._up_to_date(now)
        tick = evaluator.tick(now)
        due = evaluator.next_due()
        row = self._row()
        # A time that a wrong clock recorded is recorded again, or every look would start there.
        if not tick.durable and (row is None or not is_far_ahead(row.ticked_at, now)):
            return ConditionsEvaluated(next_due=due, seq=self._follower.seq)
        number = 1 if row is None else row.tick + 1
        eval_id = f"{self._sensor_id}:{number}:{self._loaded.token()}"
        position = EvaluationPoint(
            sensor_id=self._sensor_id,
            tick=number,
            eval_id=eval_id,
            applied_seq=self._follower.seq,
            before=None if row is None else (row.applied_seq, row.ticked_at),
        )
        recording = Recording(evaluator, tick, position)
        runs = tuple(self._runs(tick, recording.position))
        return ConditionsEvaluated(
            first=tuple(recording.first()),
            ticked=recording.last([run.requested.run_key for run in runs]),
            runs=runs,
            next_due=due,
            seq=self._follower.seq,
        )

    def preview(self, now: datetime) -> Preview:
        """What an evaluation would request, and why; nothing is stored."""
        evaluator = self._up_to_date(now)
        tick = evaluator.tick(now)
        return Preview(
            requested={name: tuple(keys) for name, keys in self._asked(tick).items()},
            trees={key: evaluator.tree(key) for key in evaluator.plans},
            next_due=evaluator.next_due(),
        )

    def forget(self) -> None:
        """Start again from what is recorded."""
        self._evaluator = None

    # --- keeping up -----------------------------------------------------------------------------

    def _up_to_date(self, now: datetime) -> Evaluator:
        changed = self._follower.catch_up()
        evaluator = self._evaluator
        moved = self._until is not None and now >= self._until
        moved = moved or (self._judged_at is not None and is_far_ahead(self._judged_at, now))
        self._judged_at = now
        if evaluator is None or changed is None or moved or "dynamic_partitions" in changed:
            return self._begin(now)
        self._news.tell(changed)
        return evaluator

    def _begin(self, now: datetime) -> Evaluator:
        state, loaded, row = self._follower.state, self._loaded, self._row()
        held = loaded.records
        snapshot = snapshot_at(held.store, held.paths, state.seq)
        self._moment = Moment(now, Sets(snapshot))
        conditions = conditions_of(
            loaded.project, now, store=self._moment.store, chosen=self._chosen
        )
        evaluator = Evaluator(
            conditions.graph,
            states=self._states(state),
            last=None if row is None else _last_tick(row, now),
        )
        # For conditions that are evaluated for the first time, nothing is new.
        WorkspaceFacts(snapshot, conditions.spaces, evaluator).tell(
            state.seq if row is None else row.applied_seq
        )
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

    def _runs(self, tick: EvaluationOutcome, position: EvaluationPoint) -> Iterator[RequestedRun]:
        made, checked = self._wanted(tick)
        over: dict[AssetKey, list[str]] = {}
        for host in [host for host in checked.partitions if host in made]:
            names = checked.partitions.pop(host)
            left = [name for name in names if name not in made[host]]
            if left:
                over[host] = left
        chosen = frozenset({*checks_of_assets(self._loaded.project, made), *checked.checks})
        if made or checked.partitions:
            together = CheckScope(checks=chosen, alone=tuple(checked.partitions))
            yield self._run({**made, **checked.partitions}, position, together)
        if over:
            alone = CheckScope(checks=frozenset(checked.checks), alone=tuple(over))
            yield self._run(over, position, alone, suffix=":checks")

    def _run(
        self,
        wanted: Mapping[AssetKey, Sequence[str]],
        position: EvaluationPoint,
        checked: CheckScope,
        *,
        suffix: str = "",
    ) -> RequestedRun:
        labels = {**run_tags_of(self._loaded.project, self._sensor_id)}
        labels[AUTOMATION_LABEL] = self._sensor_id
        source = AutomationSource(
            evaluation_id=position.eval_id, sensor_id=self._sensor_id, tick=position.tick
        )
        run_key = f"auto:{position.eval_id}{suffix}"
        return self._loaded.run_of(
            wanted,
            run_key,
            labels,
            source=source,
            moment=self._moment,
            checked=checked,
            text=f"automation {self._sensor_id}",
        )

    def _wanted(self, tick: EvaluationOutcome) -> "tuple[dict[AssetKey, list[str]], _Checks]":
        """The partitions to materialize, and those to check, in the order of the graph."""
        asked, project = self._asked(tick), self._loaded.project
        made = {key: asked[name] for key in project.order if (name := key.canonical()) in asked}
        checks = _Checks()
        for check in sorted(self._chosen_checks(), key=text_of):
            for name in asked.get(text_of(check), ()):
                checks.add(host_of(project, check), check, name)
        return made, checks

    def _chosen_checks(self) -> list[AssetCheckKey]:
        return [one for one in self._chosen if isinstance(one, AssetCheckKey)]

    def _asked(self, tick: EvaluationOutcome) -> dict[str, list[str]]:
        """The partitions that an evaluation requests, by asset or check."""
        return {
            name: [WHOLE if key is None else key for key in self._keys(name, bits)]
            for name, bits in tick.requested.items()
        }

    def _keys(self, name: str, bits: int) -> list[str | None]:
        return self._conditions.keys(name.partition(":")[0], bits)


class _Checks:
    """Requested checks, and the partitions they check, by asset."""

    def __init__(self) -> None:
        self.checks: set[AssetCheckKey] = set()
        self.partitions: dict[AssetKey, list[str]] = {}

    def add(self, host: AssetKey, check: AssetCheckKey, partition: str) -> None:
        """Add a partition to a check."""
        self.checks.add(check)
        names = self.partitions.setdefault(host, [])
        if partition not in names:
            names.append(partition)


def _last_tick(row: AutomationSensorRow, now: datetime) -> datetime:
    """When the conditions were evaluated last; now, if a clock that was ahead recorded it."""
    return now if is_far_ahead(row.ticked_at, now) else row.ticked_at


def judge(loaded: LoadedLocation, asked: EvaluateConditions) -> ConditionsEvaluated:
    """Answer what the conditions of a sensor request now."""
    try:
        evaluator = loaded.condition_evaluators.get(asked.sensor_id)
        if evaluator is None:
            evaluator = loaded.condition_evaluators[asked.sensor_id] = ConditionEvaluator(
                loaded, asked.sensor_id
            )
        if asked.forget:
            evaluator.forget()
        return evaluator.judge(loaded.clock.now())
    except NotFound as error:
        return ConditionsEvaluated(error=told(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings are user code
        _ = loaded.condition_evaluators.pop(asked.sensor_id, None)
        return ConditionsEvaluated(error=told(error))
