"""Laws of conditions and of freshness.

A condition requests something because of a change, and only once for it. An incremental evaluation
and a fresh start give the same result.
"""

from collections.abc import Sequence

from servo.core.automation.states import unpacked
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.envelope import Answer, Batch, Entry
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.runs import AutomationSource, RunRequested
from servo.core.events.sensors import SensorResumed
from servo.core.freshness import FreshnessState, judge, read_policy
from servo.core.state.state import State
from simulation.kernel import Violation
from simulation.laws import Law, all_events, events, in_effect, paused_sensors

ABOVE = {"mid": "raw", "top": "mid", "below": "parts"}
"""The assets that are materialized whenever their upstream asset was."""
ONCE = "parts"
"""The asset whose partitions are materialized because they are missing, so each only once."""


class ConditionLaw(Law):
    """Follows every evaluation of conditions from entry to entry."""

    def __init__(self) -> None:
        self._asked_at: dict[str, int] = {}
        self._asked_once = 0
        self._paused: set[str] = set()

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        batches = list(in_effect(entry, answers))
        awake = {event.sensor_id for event in all_events(batches, SensorResumed)}
        for batch in batches:
            self._check_runs(batch)
            for head in events(batch, AutomationTicked):
                if head.sensor_id in self._paused - awake and events(batch, RunRequested):
                    raise Violation(f"sensor {head.sensor_id} is paused, but created a run")
                self._check_requests(head, batch, state)
        self._paused = paused_sensors(state)

    def _check_runs(self, batch: Batch) -> None:
        made = {head.eval_id for head in events(batch, AutomationTicked)}
        for request in events(batch, RunRequested):
            source = request.source
            if isinstance(source, AutomationSource) and source.evaluation_id not in made:
                raise Violation(f"a run of evaluation {source.evaluation_id} is not in its batch")

    def _check_requests(self, head: AutomationTicked, batch: Batch, state: State) -> None:
        asked = {
            event.asset_key: unpacked(event.requested)
            for event in events(batch, AutomationEvaluated)
            if event.requested_count
        }
        if bool(asked) != bool(events(batch, RunRequested)):
            raise Violation(f"evaluation {head.eval_id} was recorded without its run")
        again = asked.get(ONCE, 0) & self._asked_once
        if again:
            raise Violation(f"partitions {again:b} of {ONCE} were requested twice")
        self._asked_once |= asked.get(ONCE, 0)
        for asset, above in ABOVE.items():
            if asset not in asked:
                continue
            since = self._asked_at.get(asset)
            self._asked_at[asset] = head.applied_seq
            if since is None or above in asked:
                continue
            if not _was_made(state, asset, above, since, head.applied_seq):
                raise Violation(f"{asset} was requested again by evaluation {head.tick}")

    def unfinished(self, state: State) -> list[str]:
        del state
        return [f"sensor {name} is paused" for name in sorted(self._paused)]


def _was_made(state: State, asset: str, above: str, since: int, until: int) -> bool:
    """Whether the upstream of an asset was materialized, and not together with it."""
    for row in state.materializations.values():
        if row.asset_key == above and row.promoted and since < row.created_seq <= until:
            tasks = [state.tasks.rows[row.run_id, k] for k in state.index.run_tasks[row.run_id]]
            if asset not in {task.asset_key for task in tasks}:
                return True
    return False


class FreshnessLaw(Law):
    """Recorded freshness agrees with its policy at that time, and is recorded without a request."""

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        for batch in in_effect(entry, answers):
            for event in events(batch, FreshnessChanged):
                asset = state.assets.rows[event.asset_key]
                policy = read_policy(asset.freshness_policy)
                judged = judge(policy, asset.last_materialization_at, entry.ts)
                if judged.state is not event.state:
                    raise Violation(
                        f"{event.asset_key} is {judged.state}, but {event.state} was recorded"
                    )

    def unfinished(self, state: State) -> list[str]:
        """In the end, every materialized asset is too old, and recorded as such."""
        stands = state.freshness.rows
        return [
            f"freshness of {key}"
            for key, asset in state.assets.rows.items()
            if asset.freshness_policy
            and asset.last_materialization_at is not None
            and (key not in stands or stands[key].state is not FreshnessState.FAIL)
        ]
