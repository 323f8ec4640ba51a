"""An evaluation as events: what heads a batch, before the runs that it asks for.

Trees are for people and there may be thousands of them in one evaluation. What asks for something
is told first, and what does not fit any more is left out; what has to be remembered never is.
"""

from collections.abc import Sequence

import msgspec

from servo.core.automation.evaluating import Evaluator, Tick
from servo.core.automation.states import packed
from servo.core.events.automation import AutomationEvaluated, AutomationTicked

MOST_TREE = 16_384
MOST_TREES = 1_048_576

Events = tuple[AutomationTicked | AutomationEvaluated, ...]


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Which evaluation of which sensor this is, and up to where it read the ledger."""

    sensor_id: str
    tick: int
    eval_id: str
    applied_seq: int


def events_of(
    evaluator: Evaluator, tick: Tick, position: Position, run_keys: Sequence[str] = ()
) -> Events:
    """The events of an evaluation that was just made."""
    head = AutomationTicked(
        sensor_id=position.sensor_id,
        tick=position.tick,
        eval_id=position.eval_id,
        applied_seq=position.applied_seq,
        ticked_at=tick.at,
        requested_count=sum(bits.bit_count() for bits in tick.requested.values()),
        run_keys=tuple(run_keys),
    )
    trees = _trees(evaluator, tick)
    keys = {**tick.requested, **tick.states, **trees}
    return (head, *(_evaluated(tick, position, key, trees.get(key, "")) for key in sorted(keys)))


def _evaluated(tick: Tick, position: Position, key: str, tree: str) -> AutomationEvaluated:
    bits = tick.requested.get(key, 0)
    return AutomationEvaluated(
        sensor_id=position.sensor_id,
        tick=position.tick,
        asset_key=key,
        cursor=tick.states.get(key),
        requested=packed(bits),
        requested_count=bits.bit_count(),
        tree=tree,
    )


def _trees(evaluator: Evaluator, tick: Tick) -> dict[str, str]:
    """The trees that there is room for, of what asks for something first."""
    trees: dict[str, str] = {}
    left = MOST_TREES
    for key in sorted(tick.told, key=lambda key: key not in tick.requested):
        tree = msgspec.json.encode(evaluator.tree(key)).decode()
        if len(tree) <= min(left, MOST_TREE):
            trees[key] = tree
            left -= len(tree)
    return trees
