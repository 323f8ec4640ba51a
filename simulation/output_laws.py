"""Laws of outputs and of leadership among commands.

- An output is durable before the ledger names it: from the entry on that records it, its marker is
  there, and its data has the recorded hash.
- A result that was committed before a takeover is adopted: the task is not run again.
- A leader that is healthy is not replaced.
"""

from collections.abc import Callable, Sequence

from servo.core.events.envelope import Answer, Entry
from servo.core.events.tasks import TaskFinished
from servo.core.state.state import State
from servo.core.state.states import TaskState
from servo.errors import ServoError
from servo.execution.outputs.store import OutputStore
from servo.ledger.paths import MARKER, Paths
from simulation.faults import Bucket, PlainStore
from simulation.kernel import Violation
from simulation.laws import Law, events, in_effect


class OutputLaw(Law):
    """Outputs are there, and a committed result is not made again."""

    def __init__(self, bucket: Bucket, paths: Paths) -> None:
        self._store = OutputStore(PlainStore(bucket), paths)
        self._committed: set[str] = set()
        self._adopt: dict[tuple[str, str], str] = {}
        self._epoch = 0
        self._running: dict[tuple[str, str], str] = {}
        self.adopted = 0
        bucket.watchers.append(self._on_write)

    def _on_write(self, operation: str, key: str, data: bytes) -> None:
        if operation == "write" and key.endswith(MARKER) and b'"result":' in data:
            self._committed.add(key.split("/")[-2])

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        for batch in in_effect(entry, answers):
            for event in events(batch, TaskFinished):
                self._check_durable(event)
        if entry.epoch > self._epoch:
            self._epoch = entry.epoch
            left = {key: one for key, one in self._running.items() if one in self._committed}
            self._adopt.update(left)
        self._running = {}
        for key in state.index.running:
            row = state.tasks.rows[key]
            self._running[key] = row.exec_id
            self._check_again(key, row.exec_id)

    def _check_durable(self, report: TaskFinished) -> None:
        """Whoever reads of an output in the ledger finds it in the store."""
        made = report.outputs if report.output is None else (report.output,)
        for output in made:
            try:
                _ = self._store.read(output.uri, output.content_hash)
            except ServoError as error:
                raise Violation(
                    f"{report.exec_id} reported an output of {report.task_key} before it was "
                    f"durable: {error}"
                ) from error

    def _check_again(self, key: tuple[str, str], exec_id: str) -> None:
        first = self._adopt.get(key)
        if first is not None and first != exec_id:
            raise Violation(
                f"{key[1]} of {key[0]} runs again as {exec_id}, but {first} had committed its "
                "result before the takeover"
            )

    def ended(self, state: State) -> None:
        for row in state.tasks.values():
            first = self._adopt.get((row.run_id, row.task_key))
            if first is not None:
                self._check_again((row.run_id, row.task_key), row.exec_id)
                self.adopted += row.state is TaskState.SUCCEEDED
        for made in state.materializations.values():
            try:
                _ = self._store.read(made.output_uri, made.content_hash)
            except ServoError as error:
                raise Violation(f"the output of {made.asset_key} is lost: {error}") from error


class HealthLaw(Law):
    """A healthy leader keeps the lead."""

    def __init__(self, leader_is_healthy: Callable[[str], bool]) -> None:
        self._is_healthy = leader_is_healthy
        self._owner = ""

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        del answers, state
        if entry.owner != self._owner:
            if self._owner and self._is_healthy(self._owner):
                raise Violation(f"entry {entry.seq}: a healthy leader was replaced")
            self._owner = entry.owner
