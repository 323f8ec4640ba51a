"""Automation conditions: evaluated when the workspace has changed, or when time makes them due.

One process evaluates them and follows the ledger. It evaluates again when the workspace has changed
since, at most as often as the interval of its sensor allows. The result is committed as one batch
that begins with the number of the evaluation. If the batch is refused, another evaluation was
recorded first, and this one starts again from what is recorded then.
"""

from datetime import datetime, timedelta
from functools import partial

from servo.code.evaluator.messages import ConditionsEvaluated, EvaluateConditions, Evaluated
from servo.core.actors import ActorKind, Origin, actor
from servo.core.declared import AUTOMATION_LABEL
from servo.core.locations import location_of
from servo.core.state.rows.automation import SensorDefinitionRow
from servo.core.state.state import State
from servo.core.state.states import SensorStatus
from servo.core.wrong_clocks import is_far_ahead
from servo.triggers.host import TriggerContext

JUDGE_SECONDS = 300.0
AGAIN_AFTER = timedelta(seconds=1)
"""The pause after an error; it doubles with every further error."""
LONGEST_PAUSE = timedelta(seconds=30)


class Conditions:
    """The conditions of a workspace."""

    def __init__(self, context: TriggerContext) -> None:
        self._context = context
        self._seen: dict[str, int] = {}
        self._next: dict[str, datetime] = {}
        self._earliest: dict[str, datetime] = {}
        self._refused: set[str] = set()
        self._errors: dict[str, int] = {}
        self._looked_at: datetime | None = None

    def look(self, state: State, now: datetime) -> bool:
        """Start the evaluations that are due."""
        begun = False
        if self._looked_at is not None and is_far_ahead(self._looked_at, now):
            self._seen.clear()  # the clock was put right, so other things are due
        self._looked_at = now
        present = self._context.ledger_time(state, now)
        for row in list(state.sensors.rows.values()):
            name = row.sensor_id
            if self._is_at_work(state, row) and self._is_due(state, name, now, present):
                work = partial(self._judge, row, state.seq, present)
                begun |= self._context.begin(f"automation {name}", work)
        return begun

    def next_due(self) -> datetime | None:
        """When time alone makes a condition due, as far as it is known."""
        return min(self._next.values(), default=None)

    def again(self) -> None:
        """Evaluate the conditions without waiting for their interval."""
        self._earliest.clear()

    def _is_at_work(self, state: State, row: SensorDefinitionRow) -> bool:
        if AUTOMATION_LABEL not in row.labels or row.removed_at is not None:
            return False
        if not self._context.has(location_of(row.labels)):
            return False
        return state.sensor_state.rows[row.sensor_id].status is SensorStatus.ACTIVE

    def _is_due(self, state: State, name: str, now: datetime, present: datetime) -> bool:
        """Whether a condition is due by the clock, or by a change; intervals are ledger time."""
        earliest = self._earliest.get(name)
        if earliest is not None and present < earliest:
            return False
        by_time = name in self._next and self._next[name] <= now
        return by_time or self._seen.get(name) != state.seq

    # --- on a thread that may wait --------------------------------------------------------------

    def _judge(self, row: SensorDefinitionRow, seq: int, present: datetime) -> None:
        name = row.sensor_id
        self._earliest[name] = present + timedelta(milliseconds=row.min_interval_ms)
        asked = EvaluateConditions(sensor_id=name, forget=name in self._refused)
        found = self._context.evaluators.ask(asked, JUDGE_SECONDS)
        if not isinstance(found, ConditionsEvaluated) or found.error:
            error = (
                found.error if isinstance(found, ConditionsEvaluated | Evaluated) else "no answer"
            )
            self._context.say(f"conditions of {name}: {error}")
            errors = self._errors[name] = self._errors.get(name, 0) + 1
            pause = min(AGAIN_AFTER * 2 ** min(errors - 1, 8), LONGEST_PAUSE)
            self._earliest[name] = present + pause
            return
        _ = self._errors.pop(name, None)
        self._refused.discard(name)
        self._seen[name] = seq
        _ = self._next.pop(name, None)
        if found.next_due is not None:
            self._next[name] = found.next_due
        if found.ticked and not self._commit(name, found):
            self._refused.add(name)
            _ = self._seen.pop(name, None)

    def _commit(self, name: str, found: ConditionsEvaluated) -> bool:
        """Commit an evaluation with the runs it requests; whether it was accepted."""
        runs = [event for run in found.runs for event in (run.requested, run.planned)]
        batches = (*found.first, (*found.ticked, *runs))
        origin = Origin(actor=actor(ActorKind.AUTOMATION, name))
        return all(self._context.commit("automation", batch, origin).applied for batch in batches)
