"""Record an evaluation as events: the first events of a batch, before its run requests.

Trees are for display, and one evaluation may have thousands. Trees of subjects that request
something come first, and those that do not fit are left out; states are never left out.

An evaluation can exceed the size of a batch, for example the first one of very many conditions.
Then subjects that request nothing are committed first, in batches that each count as an evaluation,
and the last batch has all requests with their runs. A process that dies in between has requested
nothing. The earlier batches record the read position of the previous evaluation, so a process that
restarts after one of them gets the same news again: conditions that were not evaluated yet need it,
and for those that were, and requested nothing, it changes nothing.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.states import packed
from servo.core.events.automation import AutomationEvaluated, AutomationTicked

MOST_TREE = 16_384
MOST_TREES = 1_048_576
MOST_BYTES = 2_500_000
MOST_EVENTS = 10_000

Events = tuple[AutomationTicked | AutomationEvaluated, ...]


class EvaluationPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Which evaluation of which sensor this is, and up to where it read the ledger.

    `before` is how far the previous one had read, and its time; None if there was none. `tick` is
    the number of the first batch, if there are several.
    """

    sensor_id: str
    tick: int
    eval_id: str
    applied_seq: int
    before: tuple[int, datetime] | None = None


class Recording:
    """The events of an evaluation, in as few batches as possible."""

    def __init__(
        self, evaluator: Evaluator, tick: EvaluationOutcome, position: EvaluationPoint
    ) -> None:
        self._tick = tick
        self._trees = _trees(evaluator, tick)
        keys = sorted({**tick.requested, **tick.states, **self._trees})
        self._parts = list(_parts([self._evaluated(key, position) for key in keys], tick))
        last = position.tick + len(self._parts) - 1
        self._start = position
        self.position = msgspec.structs.replace(position, tick=last)
        """That of the last batch, with which the runs belong."""

    def first(self) -> list[Events]:
        """The batches before the last one, in order."""
        found: list[Events] = []
        seq, at = self._start.before or (self._start.applied_seq, self._tick.at)
        for number, part in enumerate(self._parts[:-1], self._start.tick):
            head = AutomationTicked(
                sensor_id=self._start.sensor_id,
                tick=number,
                eval_id=f"{self._start.eval_id}:{number}",
                applied_seq=seq,
                ticked_at=at,
            )
            found.append((head, *_numbered(part, number)))
        return found

    def last(self, run_keys: Sequence[str] = ()) -> Events:
        """The batch that is committed with the run requests."""
        head = AutomationTicked(
            sensor_id=self.position.sensor_id,
            tick=self.position.tick,
            eval_id=self.position.eval_id,
            applied_seq=self.position.applied_seq,
            ticked_at=self._tick.at,
            requested_count=sum(bits.bit_count() for bits in self._tick.requested.values()),
            run_keys=tuple(run_keys),
        )
        return (head, *_numbered(self._parts[-1], self.position.tick))

    def _evaluated(self, key: str, position: EvaluationPoint) -> AutomationEvaluated:
        bits = self._tick.requested.get(key, 0)
        return AutomationEvaluated(
            sensor_id=position.sensor_id,
            tick=position.tick,
            asset_key=key,
            cursor=self._tick.states.get(key),
            requested=packed(bits),
            requested_count=bits.bit_count(),
            tree=self._trees.get(key, ""),
        )


def _parts(
    events: Sequence[AutomationEvaluated], tick: EvaluationOutcome
) -> Iterator[list[AutomationEvaluated]]:
    """The events split into batches, with everything that requests something in the last."""
    sizes = [len(msgspec.json.encode(event)) for event in events]
    if len(events) <= MOST_EVENTS and sum(sizes) <= MOST_BYTES:
        yield list(events)
        return
    part: list[AutomationEvaluated] = []
    held = 0
    for event, size in zip(events, sizes, strict=True):
        if event.asset_key in tick.requested:
            continue
        if part and (held + size > MOST_BYTES or len(part) == MOST_EVENTS):
            yield part
            part, held = [], 0
        part.append(event)
        held += size
    yield part
    yield [event for event in events if event.asset_key in tick.requested]


def _numbered(part: Sequence[AutomationEvaluated], tick: int) -> list[AutomationEvaluated]:
    return [msgspec.structs.replace(event, tick=tick) for event in part]


def _trees(evaluator: Evaluator, tick: EvaluationOutcome) -> dict[str, str]:
    """The trees that fit, those of subjects that request something first."""
    trees: dict[str, str] = {}
    left = MOST_TREES
    for key in sorted(tick.told, key=lambda key: key not in tick.requested):
        tree = msgspec.json.encode(evaluator.tree(key)).decode()
        if len(tree) <= min(left, MOST_TREE):
            trees[key] = tree
            left -= len(tree)
    return trees
