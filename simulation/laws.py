"""A law: checked after every entry, and once more when the world is quiet."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar

from servo.core.events.envelope import Answer, Batch, Entry, Event
from servo.core.events.runs import RunRequested
from servo.core.state.state import State
from servo.core.state.states import SensorStatus
from simulation.kernel import Violation

E = TypeVar("E", bound=Event)


class Law(ABC):
    """Raises `Violation` when it is broken."""

    @abstractmethod
    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        """An entry was folded, with these answers to its batches and this resulting state."""

    def unfinished(self, state: State) -> list[str]:
        """What should have ended but has not."""
        del state
        return []

    def ended(self, state: State) -> None:  # noqa: B027 - most laws have nothing left to say
        """The world is quiet."""


def in_effect(entry: Entry, answers: Sequence[Answer]) -> Iterator[Batch]:
    """The batches of an entry that changed something: not refused, and not known before."""
    for batch, answer in zip(entry.batches, answers, strict=False):
        told = answer.applied or answer.reason.startswith("run_key_conflict")
        if told and not answer.repeated:
            yield batch


def events(batch: Batch, kind: type[E]) -> list[E]:
    """The events of a kind in a batch."""
    return [event for event in batch.events if isinstance(event, kind)]


def all_events(batches: Sequence[Batch], kind: type[E]) -> list[E]:
    """The events of a kind in some batches."""
    return [event for batch in batches for event in events(batch, kind)]


def paused_sensors(state: State) -> set[str]:
    """The sensors that are paused."""
    rows = state.sensor_state.rows.values()
    return {row.sensor_id for row in rows if row.status is SensorStatus.PAUSED}


class RunKeyLaw(Law):
    """One run key, one run, for ever; another request under it is a recorded conflict."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        for batch in in_effect(entry, answers):
            for event in events(batch, RunRequested):
                self._check(event, state)

    def _check(self, event: RunRequested, state: State) -> None:
        key, printed = event.run_key, event.request_fingerprint
        row = state.run_keys.rows.get(key)
        if row is None:
            raise Violation(f"a run was requested with the key {key}, but there is none")
        found = (row.request_fingerprint, row.run_id)
        if self._known.setdefault(key, found) != found:
            raise Violation(f"the run key {key} now belongs to another run")
        conflict = row.request_fingerprint != printed
        if conflict and (key, printed) not in state.run_key_conflicts:
            raise Violation(f"another request used the run key {key}, and no conflict was recorded")

    def ended(self, state: State) -> None:
        keys = [run.run_key for run in state.runs.values()]
        if len(keys) != len(set(keys)):
            raise Violation("two runs have the same run key")
