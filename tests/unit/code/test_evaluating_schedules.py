"""What a tick comes to: runs under their keys, a reason, or what went wrong."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from servo import (
    AssetCheckResult,
    AssetKey,
    AssetSelection,
    Definitions,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    RunRequest,
    ScheduleDefinition,
    SensorResult,
    SkipReason,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    define_asset_job,
    schedule,
)
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import Evaluated, EvaluateTick, EvaluateTicks
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.schedules import evaluate_tick, evaluate_ticks, tick_id
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch
from servo.core.events.runs import ScheduleSource
from servo.errors import Invalid, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock, SeededEntropy

SIX = datetime(2025, 1, 15, 6, tzinfo=UTC)


@asset
def orders() -> int:
    return 1


@asset(deps=[orders])
def total() -> int:
    return 2


def desk_of(*schedules: Any, **fields: Any) -> LoadedLocation:
    return desk_of_project(Definitions([orders, total], schedules=schedules, **fields).project())


def desk_of_project(project: Project) -> LoadedLocation:
    clock = ManualClock(SIX)
    records = PlanStore(store=MemoryStore(clock), paths=Paths("t", "w"), salt=bytes(32))
    around = EvaluatorEnvironment(
        clock=clock,
        entropy=SeededEntropy(),
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: None,
    )
    return LoadedLocation(project, records, around)


def evaluated(definition: Any, name: str = "s", **fields: Any) -> Evaluated:
    asked = EvaluateTick(schedule_id=name, tick_id=tick_id(name, SIX), scheduled_for=SIX)
    return evaluate_tick(desk_of(definition, **fields), asked)


def plain(**fields: Any) -> ScheduleDefinition:
    given: dict[str, Any] = {"name": "s", "cron_schedule": "0 6 * * *", "target": "*"} | fields
    return ScheduleDefinition(**given)


def test_a_plain_schedule_asks_for_its_target_once_a_tick() -> None:
    found = evaluated(plain(tags={"team": "core"}))
    [run] = found.runs
    epoch = int(SIX.timestamp())
    assert run.requested.run_key == f"sched:s:{epoch}"
    assert run.requested.source == ScheduleSource(schedule_id="s", tick_id=f"s:{epoch}")
    assert run.requested.labels == {"team": "core", "servo/schedule": "s"}
    assert [task.asset_key for task in run.planned.tasks] == ["orders", "total"]
    assert run.planned.run_id == run.requested.run_id
    assert (found.skipped, found.error) == ("", "")


def test_a_job_brings_its_tags_and_its_configuration() -> None:
    job = define_asset_job("j", "orders", tags={"cost": "low"}, config={"ops": {}})
    [run] = evaluated(plain(target=None, job=job), jobs=[job]).runs
    assert run.requested.labels["cost"] == "low"
    assert run.requested.labels["servo/job"] == "j"
    assert [task.asset_key for task in run.planned.tasks] == ["orders"]


def test_a_job_of_checks_makes_nothing_and_one_without_them_checks_nothing() -> None:
    @asset_check(asset=orders)
    def small(orders: int) -> AssetCheckResult:
        return AssetCheckResult(passed=orders < 3)

    def tasks(selection: AssetSelection) -> list[tuple[str, str | None]]:
        job = define_asset_job("nightly", selection)
        answer = evaluated(plain(job=job, target=None), asset_checks=[small])
        return [
            (task.task_key, task.tags.get("servo/checks")) for task in answer.runs[0].planned.tasks
        ]

    assert tasks(AssetSelection.checks_for_assets(orders)) == [("orders:check", None)]
    assert tasks(AssetSelection.assets(orders).without_checks()) == [("orders:materialize", "")]
    assert tasks(AssetSelection.assets(orders)) == [("orders:materialize", None)]


def test_a_request_for_a_partition_of_several_dimensions_can_be_stored() -> None:
    letters = StaticPartitionsDefinition(["a", "b"])
    both = MultiPartitionsDefinition({"one": letters, "two": letters})

    @asset(partitions_def=both)
    def pairs() -> int:
        return 1

    @schedule(cron_schedule="0 6 * * *", target="pairs", name="s")
    def pair(context: Any) -> RunRequest:
        del context
        key = MultiPartitionKey({"one": "a", "two": "b"})
        return RunRequest(run_key=key, partition_key=key)

    project = Definitions([pairs], schedules=[pair]).project()
    asked = EvaluateTick(schedule_id="s", tick_id=tick_id("s", SIX), scheduled_for=SIX)
    found = evaluate_tick(desk_of_project(project), asked)
    assert found.error == ""
    [run] = found.runs
    batch = Batch(id="b", events=(run.requested, run.planned))
    assert b'"servo/partition":"a|b"' in encode_batch(batch)


def test_a_function_is_told_the_local_time_of_its_tick() -> None:
    seen: list[datetime] = []

    @schedule(cron_schedule="0 7 * * *", target="*", execution_timezone="Europe/Berlin", name="s")
    def local(context: Any) -> None:
        seen.append(context.scheduled_execution_time)

    found = evaluated(local)
    assert found.skipped == "no run was requested"
    assert seen == [SIX]
    assert seen[0].hour == 7


def test_several_requests_of_one_tick_have_keys_of_their_own() -> None:
    @schedule(cron_schedule="0 6 * * *", target="*", name="s")
    def several() -> list[RunRequest]:
        return [RunRequest(), RunRequest(), RunRequest(run_key="mine: a/b")]

    keys = [run.requested.run_key for run in evaluated(several).runs]
    epoch = int(SIX.timestamp())
    assert keys == [f"sched:s:{epoch}:0", f"sched:s:{epoch}:1", "sched:s:key:mine: a/b"]


def test_a_request_may_choose_among_the_assets_of_its_target() -> None:
    @schedule(cron_schedule="0 6 * * *", target="*", name="s")
    def chosen() -> RunRequest:
        return RunRequest(asset_selection=[AssetKey("total")])

    [run] = evaluated(chosen).runs
    assert [task.asset_key for task in run.planned.tasks] == ["total"]


def _nothing() -> list[RunRequest]:
    return []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: SkipReason("it rains"), "it rains"),
        (_nothing, "no run was requested"),
    ],
)
def test_a_reason_is_kept(answer: Any, words: str) -> None:
    found = evaluated(plain(execution_fn=answer))
    assert (found.skipped, found.runs, found.error) == (words, (), "")


def _raises() -> None:
    raise ValueError("no such thing")


def _leaves() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_raises, "ValueError: no such thing (test_evaluating_schedules.py:"),
        (_leaves, "SystemExit: 3"),
        (lambda: 17, "returned 17"),
        (lambda: SensorResult(cursor="3"), "returned a cursor"),
        (lambda: RunRequest(asset_selection=[AssetKey("nobody")]), "nobody, which is not an asset"),
        (lambda: RunRequest(job_name="nothing"), "no job nothing"),
    ],
)
def test_what_goes_wrong_is_an_answer(answer: Any, words: str) -> None:
    found = evaluated(plain(execution_fn=answer))
    assert words in found.error
    assert found.runs == ()


def test_an_asset_outside_the_target_is_not_asked_for_by_mistake() -> None:
    made = plain(target="orders", execution_fn=lambda: RunRequest(asset_selection=["total"]))
    assert "is not in its target" in evaluated(made).error


def test_a_schedule_that_the_code_no_longer_has_is_an_answer() -> None:
    assert "no schedule other; did you mean" not in evaluated(plain(), name="other").error
    assert "the code has no schedule other" in evaluated(plain(), name="other").error


def test_the_same_request_has_the_same_fingerprint_and_another_has_not() -> None:
    one, again, other = (
        evaluated(plain(tags={"n": n})).runs[0].requested.request_fingerprint for n in "aab"
    )
    assert one == again != other


def test_many_are_answered_in_their_order() -> None:
    loaded = desk_of(plain(name="a"), plain(name="b", target="orders"))
    asked = [EvaluateTick(schedule_id=n, tick_id=n, scheduled_for=SIX) for n in ("b", "a", "c")]
    found = evaluate_ticks(loaded, EvaluateTicks(ticks=tuple(asked))).answers
    assert [len(one.runs[0].planned.tasks) if one.runs else one.error for one in found] == [
        1,
        2,
        "the code has no schedule c; available: a, b",
    ]


# --- what is declared -----------------------------------------------------------------------------


def test_a_deployment_tells_when_a_schedule_ticks_and_who_decides() -> None:
    @schedule(cron_schedule=["0 6 * * *", "0 18 * * *"], target="orders", name="asks")
    def asks() -> None: ...

    project = Definitions([orders, total], schedules=[plain(), asks]).project()
    first, second = declared(project).schedules
    assert (first.schedule_id, first.labels, first.enabled) == ("s", {}, False)
    assert (first.asset_selection, first.target) == (("orders", "total"), "*")
    assert second.labels == {"servo/evaluated": "function"}
    assert second.cron_expressions == ("0 6 * * *", "0 18 * * *")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("orders+", "orders+"),
        (orders, "orders"),
        ([orders, "total"], "orders, total"),
        (AssetSelection.assets(orders).downstream(), "orders, total"),
    ],
)
def test_a_target_is_told_as_people_write_it_and_never_as_a_repr(target: Any, told: str) -> None:
    project = Definitions([orders, total], schedules=[plain(target=target)]).project()
    [found] = declared(project).schedules
    assert found.target == told


def test_of_many_assets_a_target_names_the_first() -> None:
    def numbered(number: int) -> Any:
        return asset(name=f"a{number}")(lambda: None)

    many = [numbered(number) for number in range(5)]
    project = Definitions(many, schedules=[plain(target=many)]).project()
    [found] = declared(project).schedules
    assert found.target == "a0, a1, a2 and 2 more"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(Invalid, match="two schedules are called s"):
        _ = Definitions([orders], schedules=[plain(), plain()]).project()


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound, match="schedule s: there is no job nope"):
        _ = Definitions([orders], schedules=[plain(target=None, job_name="nope")]).project()


def test_what_is_no_schedule_is_refused() -> None:
    with pytest.raises(Invalid, match="is not a schedule"):
        _ = Definitions([orders], schedules=["nightly"]).project()


def test_a_store_that_cannot_be_reached_is_no_failure_of_the_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: Any) -> None:
        raise Unavailable("the plan was not stored", remedy="retry", may_have_applied=False)

    monkeypatch.setattr(LoadedLocation, "run", away)
    found = evaluated(plain())
    assert (found.unasked, found.error) == (True, "the plan was not stored; retry")


def test_what_user_code_cannot_reach_is_its_own_failure() -> None:
    @schedule(cron_schedule="0 6 * * *", target="*", name="s")
    def asks_elsewhere(context: Any) -> None:
        del context
        raise Unavailable("nobody answers", remedy="retry", may_have_applied=False)

    found = evaluated(asks_elsewhere)
    assert (found.unasked, found.error) == (False, "nobody answers; retry")
