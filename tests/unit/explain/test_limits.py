"""What is used up when something could run and does not."""

from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.explain.limits import waiting_for_run_slot, waiting_for_worker
from servo.testing.builders import Story, specs
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"


def why(story: Story, name: str, *, led: bool | None = None) -> list[str]:
    return outline(waiting_for_worker(records_of(story, led=led), story.task(name)))


def why_run(story: Story, run_id: str, *, led: bool | None = None) -> list[str]:
    return outline(waiting_for_run_slot(records_of(story, led=led), story.run(run_id)))


def test_a_full_pool_and_who_is_in_it() -> None:
    story = Story()
    story.tell(PoolLimitSet(pool="db", limit=1))
    story.plan({"a": [], "b": []}, pool="db")
    story.start("a")
    assert why(story, "b") == [
        f"? ns/b waits since {AT} for a slot in the pool db: 1 of 1 taken, by ns/a",
        "  > wait for one of those to finish, or raise the limit of the pool db",
        "  $ servo admin pool set db 2",
    ]
    assert why(story, "b", led=False)[1:] == [
        "  > no leader is running in this workspace: start a leader and its workers",
        "  $ servo resume",
    ]
    story.finish("a")
    assert why(story, "b")[0] == f"? ns/b waits since {AT} for a free worker"


def test_a_pool_that_lets_nothing_run() -> None:
    story = Story()
    story.tell(PoolLimitSet(pool="db", limit=0))
    story.plan({"a": []}, pool="db")
    assert why(story, "a")[0] == (
        f"? ns/a waits since {AT} for a slot in the pool db: its limit is 0, so nothing runs"
    )
    story.tell(PoolLimitSet(pool="db", limit=None))
    assert why(story, "a")[0] == f"? ns/a waits since {AT} for a free worker"


def test_a_workspace_whose_slots_are_taken() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=2))
    story.plan({"a": [], "b": [], "c": []})
    story.start("a")
    story.start("b")
    assert why(story, "c") == [
        f"? ns/c waits since {AT} for a slot of the workspace: 2 of 2 taken, by ns/a and ns/b",
        "  > wait for one of those to finish, or raise the limit",
        "  $ servo admin quota --max-parallel 3",
    ]


def test_of_many_that_hold_a_limit_some_are_named() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=7))
    story.plan({name: [] for name in "abcdefgh"})
    for name in "abcdefg":
        story.start(name)
    assert why(story, "h")[0].endswith("7 of 7 taken, by ns/a, ns/b, ns/c, ns/d, ns/e and 2 more")


def test_a_queue_that_is_full() -> None:
    story = Story()
    story.tell(QuotaSet(max_queued_tasks=1))
    story.plan({"a": [], "b": []})
    story.dispatch("a")
    assert why(story, "b") == [
        f"? ns/b waits since {AT} for a place in the queue: 1 of 1 taken, by ns/a",
        "  > start workers, or raise the limit",
        "  $ servo admin quota --max-queued 2",
    ]


def test_a_task_that_waits_for_a_worker_among_others() -> None:
    story = Story()
    story.tell(QuotaSet(max_queued_tasks=1))
    story.plan({"a": [], "b": [], "c": []})
    assert why(story, "b") == [
        f"? ns/b waits since {AT} for a free worker, as 2 other tasks do",
        "  > it starts when a worker is free",
    ]


def test_a_run_that_waits_for_others_to_end() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=1))
    story.plan({"a": []})
    story.plan({"a": []}, "run_2")
    request = RunRequested(run_id="run_3", run_key="k3", request_fingerprint="f", priority=5)
    story.tell(request, PlanCreated(run_id="run_3", fingerprint="p", tasks=specs({"a": []})))
    told = "waits for a free run slot: 1 of 1 runs are active: run_1"
    assert why_run(story, "run_3")[0] == f"? run_3 {told}"
    assert why_run(story, "run_2") == [
        f"? run_2 {told}; 1 run goes before it",
        "  > it starts when enough of them have finished; or raise the limit",
        "  $ servo admin quota --max-runs 2",
    ]
    story.plan({"a": []}, "run_4")
    assert why_run(story, "run_4")[0] == f"? run_4 {told}; 2 runs go before it"


def test_a_run_that_may_start_and_waits_for_whoever_leads() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    story.plan({"a": []})
    assert why_run(story, "run_1")[0] == "? run_1 waits for a free run slot: the limit is 0"
    story.tell(QuotaSet(max_concurrent_runs=1))
    assert why_run(story, "run_1") == [
        "? run_1 waits for a free run slot; one is free",
        "  > it starts in a moment",
    ]
    assert why_run(story, "run_1", led=False) == [
        "? run_1 waits for a free run slot; one is free, but "
        "no leader is running in this workspace",
        "  $ servo resume",
    ]
    del story.state.quotas.rows["workspace", ""]
    assert why_run(story, "run_1")[0] == "? run_1 waits for a free run slot; one is free"


def test_a_task_of_a_location_waits_for_a_worker_that_has_its_code() -> None:
    story = Story()
    for run, location in (("run_1", "a.py"), ("run_2", "b.py")):
        _ = story.request(run, location=location)
        _ = story.tell(PlanCreated(run_id=run, fingerprint="p", tasks=specs({run[-1]: ()})))
    told = why(story, "1")
    assert told[0] == f"? ns/1 waits since {AT} for a free worker of location a.py"
    assert "it starts when a worker of location a.py is free" in told[1]
    assert "servo resume a.py" in "\n".join(why(story, "1", led=False))
