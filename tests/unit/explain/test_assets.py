"""Why an asset, or one of its partitions, is as it is; and why nothing newer was made of it."""

from msgspec.structs import replace

from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    DefinitionsDeployed,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskOutcome
from servo.core.explain.assets import why, why_not
from servo.core.explain.finding import What
from servo.core.explain.records import Subject
from servo.core.freshness import FreshnessState
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.testing.builders import Story
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"
BY_HAND = f"  - started by hand; {AT}"
NOTHING = "- nothing starts it automatically: no schedule, sensor or condition covers it"
ONCE = RetryRules(max_attempts=1)


def told(story: Story, asset: str = "ns/a", partition: str | None = None) -> list[str]:
    return outline(*why(records_of(story), Subject(asset, partition)))


def told_not(story: Story, asset: str = "ns/a", partition: str | None = None) -> list[str]:
    return outline(*why_not(records_of(story), Subject(asset, partition)))


def deploy(story: Story, **upstream: tuple[str, ...]) -> None:
    assets = tuple(
        AssetDefinition(asset_key=f"ns/{name}", upstream=tuple(f"ns/{up}" for up in above))
        for name, above in upstream.items()
    )
    story.tell(DefinitionsDeployed(deployment_id="d", location="shop.py", assets=assets))


def fail(story: Story, name: str, run_id: str = "run_1") -> None:
    story.start(name, run_id)
    story.finish(name, TaskOutcome.FAILED, run_id, error=TaskError(message="no"))


# --- why ------------------------------------------------------------------------------------------


def test_an_asset_that_was_made_leads_to_what_asked_for_it() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    story.wait(hours=3)
    assert told(story) == [
        f"+ ns/a was last materialized at {AT}, 3 h ago, by run_1, attempt 1",
        BY_HAND,
        NOTHING,
        "  > materialize it by hand",
        "  $ servo materialize shop.py ns/a",
    ]
    del story.state.runs.rows["run_1"]
    assert told(story)[1] == NOTHING


def test_an_asset_that_was_never_made_and_one_that_nothing_is_known_of() -> None:
    story = Story()
    deploy(story, a=())
    assert told(story)[:2] == ["? ns/a has never been materialized", NOTHING]
    assert told(story, "ns/b") == [
        "? ns/b has never been materialized",
        NOTHING,
        "  > materialize it by hand",
    ]


def test_an_asset_that_no_code_defines() -> None:
    story = Story()
    story.plan({"a": []})
    assert told(story)[0:1] == ["? ns/a has never been materialized"]
    story.execute("a")
    assert told(story)[2:4] == [
        "  - the deployed code does not define ns/a",
        "    > see `servo list` for what your code defines",
    ]
    deploy(story, a=())
    deploy(story, b=())
    assert told(story)[2] == "  - the deployed code no longer defines ns/a"


def test_an_asset_that_something_else_made() -> None:
    story = Story()
    deploy(story, a=())
    story.tell(AssetReported(asset_key="ns/a", materialization_id="m"))
    assert told(story)[0] == (
        f"+ ns/a was last materialized at {AT}, 0 s ago, outside Servo, and reported"
    )


def test_a_wiped_asset_says_so() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    story.tell(AssetWiped(asset_key="ns/a"))
    assert told(story)[0] == "? ns/a was wiped: earlier outputs no longer count"


def test_an_attempt_that_failed_since_is_told_with_what_asked_for_it() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    story.plan({"a": []}, "run_2", retry=ONCE)
    fail(story, "a", "run_2")
    assert told(story)[2:] == [
        f"! ns/a failed at {AT} (attempt 1 of 1): no (in run_2)",
        "  > it has no retry policy; see `servo logs run_2 ns/a`, fix the cause, and retry",
        "  $ servo run retry run_2",
        BY_HAND,
        NOTHING,
        "  > once that is resolved, materialize it by hand",
        "  $ servo materialize shop.py ns/a",
    ]


def test_an_asset_that_is_on_its_way_need_not_be_made_by_hand() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    story.plan({"a": []}, "run_2")
    assert told(story)[2:] == [
        f"? ns/a waits since {AT} for a free worker (in run_2)",
        "  > it starts when a worker is free",
        BY_HAND,
        NOTHING,
    ]
    task = story.task("a", "run_2")
    del story.state.runs.rows["run_2"]
    found = why(records_of(story), Subject(task.asset_key))
    assert [one.what for one in found] == [What.MADE, What.TASK_READY, What.NOTHING]
    assert found[1].because == ()


def test_an_asset_that_is_made_along_with_another_has_its_task() -> None:
    story = Story()
    spec = TaskSpec(
        task_key=task_key_text("ns/a", None, TaskOperation.MATERIALIZE),
        asset_key="ns/a",
        also_makes=("ns/b",),
    )
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", tasks=(spec,)))
    assert told(story, "ns/b")[1] == (f"? ns/a waits since {AT} for a free worker (in run_1)")


def hold(story: Story, run_id: str, output: str) -> None:
    story.plan({"a": []}, run_id)
    story.start("a", run_id)
    gate = CommittedOutput(materialization_id=output, gate=Gate.QUARANTINED)
    story.finish("a", run_id=run_id, output=gate)


def test_outputs_that_are_held_back_are_told_until_something_newer_is_there() -> None:
    story = Story()
    hold(story, "run_1", "m1")
    assert told(story)[:2] == [
        "? ns/a has no data yet: its output is in quarantine",
        "  - the deployed code does not define ns/a",
    ]
    assert told(story)[3:6] == [
        f"? the output of {AT} is in quarantine",
        "  > check the data, then approve it, or run `servo quarantine reject m1`",
        "  $ servo quarantine approve m1",
    ]
    story.plan({"a": []}, "run_2")
    story.execute("a", run_id="run_2")
    assert not [line for line in told(story) if "quarantine" in line]


def test_of_rejected_outputs_the_last_is_told_and_not_one_that_was_let_through() -> None:
    story = Story()
    for number in (1, 2):
        hold(story, f"run_{number}", f"m{number}")
        decided = QuarantineDecided(
            materialization_id=f"m{number}", approved=False, reason=f"no {number}"
        )
        story.tell(decided)
    rejected = [line for line in told(story) if "rejected" in line]
    assert rejected == [f"! the output of {AT} was held in quarantine and rejected at {AT}: no 2"]
    assert told(story)[0] == "? ns/a has never been materialized"
    hold(story, "run_3", "m3")
    story.tell(QuarantineDecided(materialization_id="m3", approved=True))
    assert told(story)[0].startswith("+ ns/a was last materialized")
    assert [line for line in told(story) if "quarantine" in line] == [
        f"  - the output was held in quarantine and approved at {AT}"
    ]


def test_data_that_is_no_longer_kept() -> None:
    story = Story()
    for run_id in ("run_1", "run_2"):
        story.plan({"a": []}, run_id)
        story.start("a", run_id)
        story.finish(
            "a", run_id=run_id, output=CommittedOutput(materialization_id=run_id, uri="mem")
        )
    story.tell(OutputsExpired(materialization_ids=("run_1",)))
    row = story.state.assets.rows["ns/a"]
    story.state.assets.put("ns/a", replace(row, last_materialization_id="run_1"))
    assert f"  - its data expired at {AT}" in told(story)


def test_a_latest_output_of_a_task_that_was_tried_again_has_no_checks_of_its_own() -> None:
    story = Story()
    hold(story, "run_1", "m1")
    key = ("run_1", "ns/a:materialize")
    del story.state.tasks.rows[key]
    assert f"? the output of {AT} is in quarantine" in told(story)


# --- partitions -----------------------------------------------------------------------------------

DAY = "day=d:2026-01-01"
NEXT = "day=d:2026-01-02"


def run_of(story: Story, run_id: str, partition: str) -> str:
    """Plan a run of one partition; the key of its task."""
    key = task_key_text("ns/a", partition, TaskOperation.MATERIALIZE)
    spec = TaskSpec(task_key=key, asset_key="ns/a", partition=partition, retry=ONCE)
    request = RunRequested(run_id=run_id, run_key=run_id, request_fingerprint="f")
    assert story.tell(request, PlanCreated(run_id=run_id, fingerprint="p", tasks=(spec,))).applied
    return key


def end(story: Story, run_id: str, partition: str, outcome: TaskOutcome) -> None:
    key = run_of(story, run_id, partition)
    name = key.removeprefix("ns/").removesuffix(":materialize")
    story.start(name, run_id)
    story.finish(name, outcome, run_id)


def test_partitions_are_told_apart() -> None:
    story = Story()
    end(story, "run_1", DAY, TaskOutcome.SUCCEEDED)
    end(story, "run_2", NEXT, TaskOutcome.FAILED)
    assert told(story, partition=DAY)[0] == (
        f"+ ns/a:2026-01-01 was last materialized at {AT}, 0 s ago, by run_1, attempt 1"
    )
    assert not [line for line in told(story, partition=DAY) if "failed" in line]
    assert told(story, partition=NEXT)[:3] == [
        "? ns/a:2026-01-02 has never been materialized",
        "  - the deployed code does not define ns/a",
        "    > see `servo list` for what your code defines",
    ]
    assert told(story, partition=NEXT)[3].startswith("! ns/a:2026-01-02 failed at")
    assert (
        told(story, partition="day=d:2026-01-03")[0]
        == "? ns/a:2026-01-03 has never been materialized"
    )


def test_an_asset_with_partitions_names_those_that_fail() -> None:
    story = Story()
    end(story, "run_1", DAY, TaskOutcome.SUCCEEDED)
    assert told(story)[0] == (
        f"+ ns/a (partition 2026-01-01) was last materialized at {AT}, 0 s ago, by run_1, attempt 1"
    )
    end(story, "run_2", NEXT, TaskOutcome.FAILED)
    assert [line for line in told(story) if "partition" in line][1:] == [
        "! the last attempt failed for the partition 2026-01-02"
    ]
    assert "  $ servo why ns/a:2026-01-02" in told(story)
    end(story, "run_3", DAY, TaskOutcome.TIMED_OUT)
    assert [line for line in told(story) if "partition" in line][1:] == [
        "! the last attempt failed for the partitions 2026-01-01 and 2026-01-02"
    ]


# --- why not --------------------------------------------------------------------------------------


def test_what_is_missing_above_is_found_however_far_up() -> None:
    story = Story()
    deploy(story, raw=(), clean=("raw",), a=("clean", "fine"), fine=())
    story.tell(AssetObserved(asset_key="ns/fine", data_version="1"))
    assert told_not(story)[:4] == [
        "? ns/a has never been materialized",
        "? it depends on ns/raw, which has never been materialized (in between: ns/clean)",
        "  > see why",
        "  $ servo why-not ns/raw",
    ]


def test_what_fails_above_is_told_once() -> None:
    story = Story()
    deploy(story, raw=(), a=("raw",))
    story.plan({"raw": [], "a": ["raw"]}, retry=ONCE)
    fail(story, "raw")
    assert [line for line in told_not(story) if "ns/raw failed" in line] == [
        f"  ! ns/raw failed at {AT} (attempt 1 of 1): no"
    ]
    assert not [line for line in told_not(story) if "it depends on ns/raw" in line]
    story.plan({"raw": []}, "run_2", retry=ONCE)
    fail(story, "raw", "run_2")
    story.plan({"a": []}, "run_3")
    story.execute("a", run_id="run_3")
    above = [line for line in told_not(story) if "it depends on" in line]
    assert above == [f"! it depends on ns/raw, which failed 2 times in a row, the last at {AT}"]


def test_one_failure_above_is_not_counted_and_may_have_no_time() -> None:
    story = Story()
    deploy(story, raw=(), a=("raw",))
    story.plan({"raw": []}, retry=ONCE)
    fail(story, "raw")
    above = [line for line in told_not(story) if "it depends on" in line]
    assert above == [f"! it depends on ns/raw, which failed, the last at {AT}"]
    row = story.state.assets.rows["ns/raw"]
    story.state.assets.put("ns/raw", replace(row, last_failure_at=None))
    above = [line for line in told_not(story) if "it depends on" in line]
    assert above == ["! it depends on ns/raw, which failed"]


def test_what_is_newer_above_is_named() -> None:
    story = Story()
    deploy(story, raw=(), other=(), a=("raw", "other", "unknown"))
    story.plan({"raw": [], "other": [], "a": []})
    for name in ("other", "a", "raw"):
        story.execute(name)
    newer = "- its upstream assets are newer: ns/raw"
    assert told_not(story)[1] == newer
    assert told_not(story)[0].startswith("+ ns/a was last materialized")
    story.plan({"a": []}, "run_2")
    story.execute("a", run_id="run_2")
    assert newer not in told_not(story)


def test_why_not_does_not_say_what_asked_for_what_there_is() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    assert told_not(story) == [
        f"+ ns/a was last materialized at {AT}, 0 s ago, by run_1, attempt 1",
        NOTHING,
        "  > materialize it by hand",
        "  $ servo materialize shop.py ns/a",
    ]
    assert told_not(story, "ns/unknown")[0] == "? ns/unknown has never been materialized"


def test_assets_that_are_made_from_each_other_do_not_hold_anything_up() -> None:
    story = Story()
    deploy(story, a=("b",), b=("a",))
    assert told_not(story)[1] == "? it depends on ns/b, which has never been materialized"


def test_a_day_whose_runs_are_used_up_accepts_no_more() -> None:
    story = Story()
    deploy(story, a=())
    story.tell(QuotaSet(max_daily_runs=1))
    used_up = "? no more runs are accepted today: the workspace is limited to 1 run a day"
    assert used_up not in told_not(story)
    story.plan({"a": []})
    assert not story.request("run_2").applied
    story.execute("a")
    assert told_not(story)[1:4] == [
        used_up,
        "  > wait until midnight UTC, or raise the limit",
        "  $ servo admin quota --max-daily-runs 2",
    ]
    story.wait(days=1)
    assert used_up not in told_not(story)


def test_a_run_that_waits_for_a_slot_holds_its_assets_up() -> None:
    story = Story()
    deploy(story, a=())
    story.tell(QuotaSet(max_concurrent_runs=0))
    story.plan({"a": []})
    assert told_not(story)[1:3] == [
        "? ns/a is planned, and its run has not started (in run_1)",
        "  ? run_1 waits for a free run slot: the limit is 0",
    ]


# --- freshness ------------------------------------------------------------------------------------


def test_an_asset_that_is_too_old_or_soon_will_be_says_so() -> None:
    story = Story()
    deploy(story, a=())
    story.plan({"a": []})
    story.execute("a")
    seq = story.state.assets.rows["ns/a"].last_materialization_seq
    told_of = dict[FreshnessState, list[str]]()
    for version, state in enumerate(
        (FreshnessState.PASS, FreshnessState.WARN, FreshnessState.FAIL)
    ):
        changed = FreshnessChanged(
            asset_key="ns/a",
            state=state,
            expected_version=version,
            materialization_seq=seq,
            changed_at=story.now,
        )
        assert story.tell(changed).applied
        story.wait(hours=2)
        told_of[state] = [line for line in told_not(story) if "since" in line]
        assert [line for line in told(story) if "since" in line] == told_of[state]
    assert told_of == {
        FreshnessState.PASS: [],
        FreshnessState.WARN: [
            "? it will soon be older than its freshness policy allows: WARN since "
            "2026-01-01 02:00:00Z, 2 h ago"
        ],
        FreshnessState.FAIL: [
            "! it is older than its freshness policy allows: "
            "FAIL since 2026-01-01 04:00:00Z, 2 h ago"
        ],
    }
    assert not any("since" in line for line in told_not(story, partition="2026-01-01"))
