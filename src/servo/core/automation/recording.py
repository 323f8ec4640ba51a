"""An evaluation as events: what heads a batch, before the runs that it asks for.

Trees are for people and there may be thousands of them in one evaluation. What asks for something
is told first, and what does not fit any more is left out; what has to be remembered never is.

An evaluation can be larger than a batch may be: the first one of very many conditions is. Then what
asks for nothing is committed before, in batches that each count as an evaluation, and the last one
has everything that asks, with its runs. Whoever dies in between has asked for nothing. Those before
the last say what was read as of the evaluation before, so that whoever begins again after one is
told the news once more: to conditions that have not been evaluated they are news, and to those that
have, and asked for nothing, they are so again.
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

    `before` is how far the last one had read, and when it was; None if there was none. `tick` is
    the number of the first batch, if it takes several.
    """

    sensor_id: str
    tick: int
    eval_id: str
    applied_seq: int
    before: tuple[int, datetime] | None = None


class Recording:
    """The events of an evaluation that was just made, in as few batches as they fit in."""

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
        """What is committed before the last batch, in this order."""
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
        """What is committed with the runs."""
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
    """The events in parts that fit: what asks for something all in the last."""
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


def events_of(
    evaluator: Evaluator,
    tick: EvaluationOutcome,
    position: EvaluationPoint,
    run_keys: Sequence[str] = (),
) -> Events:
    """The events of an evaluation that fits in one batch."""
    return Recording(evaluator, tick, position).last(run_keys)


def _trees(evaluator: Evaluator, tick: EvaluationOutcome) -> dict[str, str]:
    """The trees that there is room for, of what asks for something first."""
    trees: dict[str, str] = {}
    left = MOST_TREES
    for key in sorted(tick.told, key=lambda key: key not in tick.requested):
        tree = msgspec.json.encode(evaluator.tree(key)).decode()
        if len(tree) <= min(left, MOST_TREE):
            trees[key] = tree
            left -= len(tree)
    return trees
