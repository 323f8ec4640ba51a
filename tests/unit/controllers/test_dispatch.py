"""Which ready tasks go next."""

from collections import Counter

from servo.controllers.dispatch import IdleWorker, dispatch, hand_over, outbox, pick
from servo.controllers.fairness import Fairness
from servo.core.events.dispatch import DispatchRequested
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.lanes import BACKFILLS, INTERACTIVE
from servo.testing.builders import Story, specs


def names(keys: list[tuple[str, str]]) -> list[str]:
    return [key[1].removeprefix("ns/").removesuffix(":materialize") for key in keys]


def test_higher_priority_goes_first_and_equals_in_order() -> None:
    story = Story()
    story.request("run_1")
    tasks = specs({"a": (), "b": ()}) + specs({"c": ()}, priority=5)
    story.tell(PlanCreated(run_id="run_1", fingerprint="p", tasks=tasks))
    assert names(pick(story.state, 10, Fairness())[0]) == ["c", "a", "b"]


def test_no_more_than_the_free_slots() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=2))
    story.plan(dict.fromkeys("abcd", ()))
    assert len(pick(story.state, 10, Fairness())[0]) == 2
    story.start("a")
    assert len(pick(story.state, 10, Fairness())[0]) == 1


def test_a_full_pool_is_passed_over_and_the_rest_goes_on() -> None:
    story = Story()
    story.tell(PoolLimitSet(pool="db", limit=1))
    story.request("run_1")
    tasks = specs({"a": (), "b": ()}, pool="db", priority=9) + specs({"c": (), "d": ()})
    story.tell(PlanCreated(run_id="run_1", fingerprint="p", tasks=tasks))
    assert names(pick(story.state, 10, Fairness())[0]) == ["a", "c", "d"]
    story.start("a")
    assert names(pick(story.state, 10, Fairness())[0]) == ["c", "d"]


def test_a_pool_whose_limit_is_removed_is_open_again() -> None:
    story = Story()
    story.tell(PoolLimitSet(pool="db", limit=0))
    story.plan({"a": ()}, pool="db")
    assert pick(story.state, 10, Fairness())[0] == []
    story.tell(PoolLimitSet(pool="db", limit=None))
    assert names(pick(story.state, 10, Fairness())[0]) == ["a"]


def test_lanes_share_by_their_weights() -> None:
    story = Story()
    story.tell(LaneWeightSet(lane="bulk", weight=50), LaneWeightSet(lane=INTERACTIVE, weight=100))
    for lane in ("bulk", INTERACTIVE):
        request = RunRequested(
            run_id=f"run_{lane}", run_key=lane, request_fingerprint="f", lane=lane
        )
        tasks = specs({f"{lane}{n}": () for n in range(20)})
        plan = PlanCreated(run_id=f"run_{lane}", fingerprint="p", tasks=tasks)
        story.tell(request, plan)
    keys, _ = pick(story.state, 9, Fairness())
    assert [key[0] for key in keys].count("run_bulk") == 3


def test_a_lane_that_nobody_gave_a_weight_has_its_own() -> None:
    story = Story()
    for lane in (BACKFILLS, INTERACTIVE, "mine"):
        request = RunRequested(run_id=lane, run_key=lane, request_fingerprint="f", lane=lane)
        tasks = specs({f"{lane}{n}": () for n in range(20)})
        story.tell(request, PlanCreated(run_id=lane, fingerprint="p", tasks=tasks))
    keys, _ = pick(story.state, 20, Fairness())
    counts = Counter(run for run, _ in keys)
    assert counts == {BACKFILLS: 2, INTERACTIVE: 16, "mine": 2}


def test_idle_workers_get_the_grant_with_the_task() -> None:
    story = Story()
    story.plan({"a": (), "b": ()})
    idle = [IdleWorker(worker_id="w1", exec_id="x1")]
    ((proposal,), _) = hand_over(story.state, idle, Fairness())
    (event,) = proposal.events
    assert isinstance(event, DispatchRequested)
    assert event.handover is not None
    assert (event.handover.exec_id, event.attempt) == ("x1", 1)


def test_only_committed_deliveries_that_nobody_took_are_sent() -> None:
    story = Story()
    story.plan({"a": (), "b": ()})
    for proposal in dispatch(story.state, Fairness())[0]:
        story.tell(*proposal.events)
    first, second = outbox(story.state, {})
    in_flight = {(first.row.attempt_id, first.row.delivery): None}
    assert outbox(story.state, in_flight) == [second]
