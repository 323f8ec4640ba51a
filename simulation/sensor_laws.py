"""Laws of sensors: no item and no message is lost, and none is answered twice."""

from collections import Counter
from collections.abc import Sequence

from servo.core.events.envelope import Answer, Batch, Entry
from servo.core.events.runs import RunRequested, SensorSource
from servo.core.events.sensors import (
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorResumed,
)
from servo.core.fold.limits import MAX_MESSAGE_ATTEMPTS
from servo.core.state.state import State
from servo.core.state.states import RunState
from simulation.kernel import Violation
from simulation.laws import Law, all_events, events, in_effect, paused_sensors
from simulation.trigger_project import ECHO, ECHOED, ITEMS

_FAILED = SensorEvalStatus.FAILED


class SensorLaw(Law):
    """Follows every sensor from entry to entry."""

    def __init__(self, acknowledged: list[tuple[Batch, Answer]]) -> None:
        self._acknowledged = acknowledged
        self._cursors: dict[str, int] = {}
        self._answered: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._paused: set[str] = set()

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        batches = list(in_effect(entry, answers))
        awake = {event.sensor_id for event in all_events(batches, SensorResumed)}
        for batch in batches:
            self._check_runs(batch)
            for event in events(batch, SensorEvaluated):
                self._check_evaluation(event, batch)
                if event.sensor_id in self._paused - awake and events(batch, RunRequested):
                    raise Violation(f"sensor {event.sensor_id} is paused, but created a run")
        self._check_cursors(state)
        self._paused = paused_sensors(state)

    def _check_runs(self, batch: Batch) -> None:
        evaluations = {event.eval_id for event in events(batch, SensorEvaluated)}
        for request in events(batch, RunRequested):
            source = request.source
            if isinstance(source, SensorSource) and source.eval_id not in evaluations:
                raise Violation(f"a run of evaluation {source.eval_id} is not in its batch")

    def _check_evaluation(self, event: SensorEvaluated, batch: Batch) -> None:
        runs = events(batch, RunRequested)
        if tuple(run.run_key for run in runs) != event.run_keys:
            raise Violation(f"evaluation {event.eval_id} was recorded without its runs")
        if isinstance(event.trigger, PushTrigger):
            self._check_answer(event, event.trigger.message_id, runs)
        elif event.sensor_id == ITEMS:
            self._check_items(event, runs)

    def _check_answer(
        self, event: SensorEvaluated, message: str, runs: Sequence[RunRequested]
    ) -> None:
        if event.status is _FAILED:
            self._failures[message] += 1
            return
        if message in self._answered:
            raise Violation(f"message {message} was evaluated twice")
        self._answered.add(message)
        if [run.labels.get("message") for run in runs] != [message]:
            raise Violation(f"message {message} was answered, but its run was not requested")

    def _check_items(self, event: SensorEvaluated, runs: Sequence[RunRequested]) -> None:
        before = self._cursors.get(ITEMS, 0)
        if event.cursor_after is None:
            return
        after = int(event.cursor_after)
        if after < before:
            raise Violation(f"the cursor of {ITEMS} went back from {before} to {after}")
        asked = [int(run.labels["item"]) for run in runs]
        if asked != list(range(before, after)):
            raise Violation(f"the cursor moved from {before} to {after} with runs for {asked}")
        self._cursors[ITEMS] = after

    def _check_cursors(self, state: State) -> None:
        row = state.sensor_state.rows.get(ITEMS)
        if row is not None and int(row.cursor or 0) != self._cursors.get(ITEMS, 0):
            raise Violation(f"the cursor of {ITEMS} is {row.cursor}, but no evaluation set it")

    def unfinished(self, state: State) -> list[str]:
        """Sensors that are paused for ever, and messages that were taken and not answered."""
        paused = [f"sensor {name} is paused" for name in sorted(self._paused)]
        waiting = [f"message {row.message_id}" for row in state.sensor_messages.rows.values()]
        return [*paused, *waiting]

    def ended(self, state: State) -> None:
        """Whatever was acknowledged was answered, or given up after as many failures as allowed."""
        del state
        for batch, answer in self._acknowledged:
            for event in events(batch, SensorMessageReceived) if answer.applied else ():
                name = event.message_id
                given_up = self._failures[name] >= MAX_MESSAGE_ATTEMPTS
                if name not in self._answered and not given_up:
                    raise Violation(f"message {name} was acknowledged but never evaluated")


class EchoLaw(Law):
    """A run sensor receives every run that reached its status, and each only once."""

    def __init__(self) -> None:
        self._begun: int | None = None
        self._told: set[str] = set()

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        del state
        batches = list(in_effect(entry, answers))
        for event in all_events(batches, SensorEvaluated):
            if event.sensor_id == ECHO and self._begun is None and event.cursor_after:
                self._begun = int(event.cursor_after)
        for request in all_events(batches, RunRequested):
            run = request.labels.get("after")
            if run in self._told:
                raise Violation(f"the run sensor received {run} twice")
            if run is not None:
                self._told.add(run)

    def unfinished(self, state: State) -> list[str]:
        """Runs that it has not received yet."""
        if self._begun is None:
            return []
        return [
            f"the run sensor has not received {run.run_id}"
            for run in state.runs.values()
            if run.state is RunState.SUCCEEDED
            and run.row_version > self._begun
            and any(label in run.labels for label in ECHOED)
            and run.run_id not in self._told
        ]
