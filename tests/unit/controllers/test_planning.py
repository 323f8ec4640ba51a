"""Which waiting runs start, and whose plan is expanded next."""

from collections import Counter

from servo.controllers.planning import MAX_ADMITTED_PER_ROUND, reconcile
from servo.core.events.quotas import LaneWeightSet, QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    PlanSegment,
    PlanSegmentExpanded,
    RunAdmitted,
    RunRequested,
)
from servo.testing.builders import Story, specs


def waiting(*priorities: int) -> Story:
    """Runs with these priorities, planned while no run had a slot."""
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    for number, priority in enumerate(priorities):
        request = RunRequested(
            run_id=f"run_{number}",
            run_key=f"key-{number}",
            request_fingerprint="fp",
            priority=priority,
        )
        plan = PlanCreated(run_id=f"run_{number}", fingerprint="plan", tasks=specs({"a": ()}))
        story.tell(request, plan)
    return story


def segmented(story: Story, run_id: str, count: int) -> None:
    """A run whose plan has this many segments of one task."""
    segments = tuple(PlanSegment(digest=f"{run_id}-{n}", count=1) for n in range(count))
    for number, segment in enumerate(segments):
        story.state.plan_segments[segment.digest] = specs({f"t{number}": ()})
    story.request(run_id)
    story.tell(PlanCreated(run_id=run_id, fingerprint="plan", segments=segments))


def test_no_run_is_admitted_without_a_free_slot() -> None:
    story = waiting(0, 0)
    assert reconcile(story.state) == []
    story.tell(QuotaSet(max_concurrent_runs=1))
    story.tell(RunAdmitted(run_id="run_0"))
    story.tell(QuotaSet(max_concurrent_runs=0))
    assert reconcile(story.state) == []


def test_as_many_runs_are_admitted_as_slots_are_free_the_urgent_ones_first() -> None:
    story = waiting(1, 5, 1, 9)
    story.tell(QuotaSet(max_concurrent_runs=3))
    actions = reconcile(story.state)
    assert [action.events for action in actions] == [
        (RunAdmitted(run_id="run_3"),),
        (RunAdmitted(run_id="run_1"),),
        (RunAdmitted(run_id="run_0"),),
    ]
    assert all(story.tell(*action.events).applied for action in actions)
    assert reconcile(story.state) == []


def test_all_runs_are_admitted_if_more_slots_are_free_than_runs_wait() -> None:
    story = waiting(0, 1)
    story.tell(QuotaSet(max_concurrent_runs=9))
    assert [action.events for action in reconcile(story.state)] == [
        (RunAdmitted(run_id="run_1"),),
        (RunAdmitted(run_id="run_0"),),
    ]


def test_slots_for_runs_go_to_the_lane_that_has_the_fewest_for_its_weight() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0), LaneWeightSet(lane="a", weight=200))
    for lane in ("a", "b", "c"):
        for number in range(6):
            name = f"{lane}{number}"
            request = RunRequested(run_id=name, run_key=name, request_fingerprint="f", lane=lane)
            plan = PlanCreated(run_id=name, fingerprint="plan", tasks=specs({name: ()}))
            story.tell(request, plan)
    admitted: list[str] = []
    for slots in range(1, 13):
        story.tell(QuotaSet(max_concurrent_runs=slots))
        (action,) = reconcile(story.state)
        assert story.tell(*action.events).applied
        (event,) = action.events
        assert isinstance(event, RunAdmitted)
        admitted.append(event.run_id)
    assert Counter(run[0] for run in admitted) == {"a": 6, "b": 3, "c": 3}
    assert admitted[:4] == ["a0", "a1", "b0", "c0"]


def test_a_round_admits_a_bounded_number_of_runs() -> None:
    story = waiting(*[0] * (MAX_ADMITTED_PER_ROUND + 1))
    story.tell(QuotaSet(max_concurrent_runs=1_000))
    assert len(reconcile(story.state)) == MAX_ADMITTED_PER_ROUND


def test_plans_are_expanded_one_segment_a_round_in_turn_until_none_is_left() -> None:
    story = Story()
    for run_id in ("run_1", "run_2"):
        segmented(story, run_id, 2)
    expanded: list[tuple[str, int]] = []
    while actions := reconcile(story.state):
        ((event,),) = (action.events for action in actions)
        assert isinstance(event, PlanSegmentExpanded)
        assert story.tell(event).applied
        expanded.append((event.run_id, event.index))
    assert expanded == [("run_1", 0), ("run_2", 0), ("run_1", 1), ("run_2", 1)]
