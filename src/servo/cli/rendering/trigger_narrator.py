"""What starts runs without a person, told line by line: backfills, and what fails to be evaluated.

A schedule or a sensor that fails is told with its error and where to read more. One that fails in
the same way again and again is told of now and then, not every time.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from rich.text import Text

from servo.cli.rendering.output import number, plural
from servo.core.events.backfills import BackfillState
from servo.core.events.schedules import TickStatus
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.state import State
from servo.core.state.states import SensorStatus

AGAIN_AFTER = timedelta(minutes=10)
"""So long the same failure of a schedule or sensor is not told again."""

MOST_TOLD = 300
MOST_HEARD = 100

_STYLES = {BackfillState.SUCCEEDED: "green", BackfillState.FAILED: "red"}


class _Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The last evaluation of a trigger: its error if it failed, and the command that shows more."""

    trigger: str
    id: str | None
    error: str
    history: str


class TriggerNarrator:
    """Tells what changed since it looked last."""

    def __init__(self, say: Callable[[Text], None]) -> None:
        self._say = say
        self._backfills: dict[str, BackfillState] = {}
        self._seen: dict[str, str | None] = {}
        self._told: dict[str, tuple[str, datetime]] = {}
        self._heard: deque[str] = deque(maxlen=MOST_HEARD)
        self._now = datetime.min.replace(tzinfo=UTC)

    def begin(self, state: State) -> None:
        """What was before is not told."""
        self._now = state.ts
        for row in list(state.backfills.rows.values()):
            self._backfills[row.backfill_id] = row.state
        for evaluation in _evaluations(state):
            self._seen[evaluation.trigger] = evaluation.id

    def look(self, state: State) -> None:
        """Tell what is new."""
        self._now = state.ts
        for row in list(state.backfills.rows.values()):
            known = self._backfills.get(row.backfill_id)
            self._backfills[row.backfill_id] = row.state
            if known is None:
                count = plural(row.total_partitions, "partition")
                runs = plural(row.total_chunks, "run")
                self._say(Text(f"backfill {row.backfill_id} started: {count} in {runs}"))
            if (known or BackfillState.RUNNING) is not row.state:
                self._say(_stands(row))
        for evaluation in _evaluations(state):
            if self._seen.get(evaluation.trigger) != evaluation.id:
                self._seen[evaluation.trigger] = evaluation.id
                if evaluation.error:
                    self._tell_failure(evaluation)

    def hear(self, words: str) -> None:
        """Take down what the triggers have to say themselves.

        Any thread may call this, the leader's too, which must not wait for a terminal.
        """
        self._heard.append(words)

    def tell_heard(self) -> None:
        """Tell what was heard; they try again, and say it again."""
        while self._heard:
            words = self._heard.popleft()
            if self._is_new(words.partition(":")[0], words):
                self._say(Text(words[:MOST_TOLD], "red"))

    def _is_new(self, name: str, wrong: str) -> bool:
        known, at = self._told.get(name, ("", self._now))
        if known == wrong and self._now - at < AGAIN_AFTER:
            return False
        self._told[name] = (wrong, self._now)
        return True

    def _tell_failure(self, failed: _Evaluation) -> None:
        if not self._is_new(failed.trigger, failed.error):
            return
        first = failed.error.partition("\n")[0][:MOST_TOLD]
        told = f" failed: {first} (see `{failed.history}`)"
        self._say(Text.assemble((failed.trigger, "red"), told))


def _stands(row: BackfillRow) -> Text:
    name = f"backfill {row.backfill_id}"
    if row.finished_at is None:
        word = "resumed" if row.state is BackfillState.RUNNING else row.state.value.lower()
        left = number(row.total_chunks - row.planned_chunks)
        return Text(f"{name} {word}: {left} of {plural(row.total_chunks, 'run')} left to start")
    told = [f"{number(row.partitions_succeeded)} succeeded"]
    told += [f"{number(row.partitions_failed)} failed"] if row.partitions_failed else []
    rest = f" of {plural(row.total_partitions, 'partition')}"
    well = row.state is BackfillState.SUCCEEDED
    more = "" if well else f" (see `servo backfill show {row.backfill_id}`)"
    state = (row.state.value, _STYLES.get(row.state, "yellow"))
    return Text.assemble(state, f" {name}: {', '.join(told)}{rest}{more}")


def _evaluations(state: State) -> Iterator[_Evaluation]:
    """The last evaluation of every schedule and sensor."""
    for row in list(state.schedule_state.rows.values()):
        tick = state.schedule_ticks.rows.get(row.last_tick_id or "")
        failed = row.last_status is TickStatus.FAILED
        error = (tick.message if tick else "") or "its last tick failed"
        yield _Evaluation(
            trigger=f"schedule {row.schedule_id}",
            id=row.last_tick_id,
            error=error if failed else "",
            history=f"servo schedule ticks {row.schedule_id}",
        )
    for row in list(state.sensor_state.rows.values()):
        failed = row.status is SensorStatus.ERROR
        yield _Evaluation(
            trigger=f"sensor {row.sensor_id}",
            id=row.last_eval_id,
            error=row.last_error if failed else "",
            history=f"servo sensor history {row.sensor_id}",
        )
