"""What a sensor comes to: runs under its keys, a reason, a cursor, or what went wrong."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import servo
from servo import (
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    Definitions,
    DynamicPartitionsDefinition,
    RunRequest,
    RunStatus,
    SensorResult,
    ServoInstance,
    SkipReason,
    StaticPartitionsDefinition,
    asset,
    asset_sensor,
    build_last_update_freshness_checks,
    build_multi_asset_sensor_context,
    build_push_sensor_context,
    build_sensor_for_freshness_checks,
    define_asset_job,
    materialize,
    multi_asset_sensor,
    push_sensor,
    run_failure_sensor,
    run_status_sensor,
    sensor,
)
from servo.checks import freshness, row_count
from servo.code.evaluator import watching
from servo.code.evaluator.history import HistoryCursor
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import (
    Evaluated,
    EvaluateMessages,
    EvaluateSensor,
    Message,
    answers,
)
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.process import as_sent
from servo.code.evaluator.sensors import evaluate_messages, evaluate_sensor
from servo.code.evaluator.watching import GIVE_UP_AFTER
from servo.core.events.assets import AssetObserved, AssetReported, DynamicPartitionsChanged
from servo.core.events.runs import SensorSource
from servo.core.events.sensors import SensorEvalStatus, SensorMode
from servo.errors import Invalid, ServoError
from servo.sdk.triggers.resolution import declared
from servo.testing.clock import ManualClock
from servo.triggers.sensors import status_of

NOW = datetime(2025, 1, 15, 6, tzinfo=UTC)


@asset
def orders() -> int:
    return 1


@asset(deps=[orders])
def total() -> int:
    return 2


@asset
def broken() -> int:
    raise ValueError("out of paper")


@pytest.fixture
def instance() -> ServoInstance:
    return ServoInstance.ephemeral()


class Asks:
    """Asks sensors of a project what they want, one question after the other."""

    def __init__(self, instance: ServoInstance, *sensors: Any, **fields: Any) -> None:
        assets = [orders, total, broken, *fields.pop("assets", ())]
        project = Definitions(assets, sensors=sensors, **fields).project()
        store, paths = instance.world.store, instance.paths
        around = EvaluatorEnvironment(
            clock=instance.world.clock,
            entropy=instance.world.entropy,
            log=logging.getLogger("test"),
            environ={},
            instance=lambda: instance,
        )
        self.loaded = LoadedLocation(
            project, PlanStore(store=store, paths=paths, salt=bytes(32)), around
        )
        self.asked = 0

    def look(self, name: str = "s", cursor: str | None = None, **fields: Any) -> Evaluated:
        self.asked += 1
        question = EvaluateSensor(sensor_id=name, eval_id=f"e{self.asked}", cursor=cursor, **fields)
        return evaluate_sensor(self.loaded, question)

    def tell(self, *payloads: str, name: str = "s") -> tuple[Evaluated, ...]:
        messages = tuple(
            Message(message_id=f"m{n}", eval_id=f"e{n}", received_at=NOW, payload=payload)
            for n, payload in enumerate(payloads)
        )
        return evaluate_messages(
            self.loaded, EvaluateMessages(sensor_id=name, messages=messages)
        ).answers


def told(answer: Evaluated) -> list[str]:
    return [run.requested.run_key for run in answer.runs]


def s(**options: Any) -> Callable[[Any], Any]:
    return sensor(name="s", **{"target": "orders", **options})


# --- polls ----------------------------------------------------------------------------------------


def test_a_sensor_asks_for_runs_under_keys_of_its_own(instance: ServoInstance) -> None:
    @s()
    def found(context: Any) -> Any:
        yield RunRequest(run_key="a", tags={"team": "core"})
        yield RunRequest()
        context.update_cursor(f"{context.cursor}!")

    answer = Asks(instance, found).look(cursor="here")
    assert told(answer) == ["sensor:s:key:a", "sensor:s:eval:e1:1"]
    first = answer.runs[0].requested
    assert first.labels == {"team": "core", "servo/sensor": "s"}
    assert first.source == SensorSource(sensor_id="s", eval_id="e1")
    assert (answer.cursor, answer.error, status_of(answer)) == (
        "here!",
        "",
        SensorEvalStatus.TRIGGERED,
    )


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        (None, SensorEvalStatus.NO_NEW_DATA, ""),
        (SkipReason("closed"), SensorEvalStatus.SKIPPED, "closed"),
        (SensorResult(skip_reason="closed"), SensorEvalStatus.SKIPPED, "closed"),
        ([], SensorEvalStatus.NO_NEW_DATA, ""),
    ],
)
def test_a_sensor_says_why_not(
    instance: ServoInstance, said: Any, status: SensorEvalStatus, message: str
) -> None:
    answer = Asks(instance, s()(lambda: said)).look()
    assert (status_of(answer), answer.skipped, answer.runs, answer.cursor) == (
        status,
        message,
        (),
        None,
    )


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (42, "sensor s returned 42"),
        ("orders", "sensor s returned 'orders'"),
        ([RunRequest(), 7], "sensor s returned 7"),
        (RunRequest(asset_selection=["nowhere"]), "requests nowhere, which is not an asset"),
        (RunRequest(asset_selection=["total"]), "which is not in its target"),
        (RunRequest(job_name="jbo"), "there is no job jbo"),
        (
            RunRequest(asset_check_keys=[AssetCheckKey("orders", "x")]),  # pyright: ignore[reportArgumentType] - coerced
            "requests an unknown check: 'x'",
        ),
        (SensorResult(dynamic_partitions_requests=["eu"]), "does not add or delete partitions"),  # pyright: ignore[reportArgumentType] - that is the point
        (SensorResult(asset_events=[3]), "int cannot be recorded outside of a run"),
        ([RunRequest()] * 1_001, "requests 1,001 runs at once"),
    ],
)
def test_garbage_is_told_and_raises_nothing(instance: ServoInstance, said: Any, wrong: str) -> None:
    answer = Asks(instance, s()(lambda: said)).look()
    assert wrong in answer.error
    assert (status_of(answer), answer.runs) == (SensorEvalStatus.FAILED, ())


def test_what_a_sensor_raises_is_told_with_its_place(instance: ServoInstance) -> None:
    def failing(context: Any) -> None:
        del context
        raise ZeroDivisionError("oh")

    def ending(context: Any) -> None:
        del context
        raise SystemExit(3)

    asks = Asks(instance, sensor(name="s", target="*")(failing), sensor(name="t")(ending))
    assert asks.look().error.startswith("ZeroDivisionError: oh (test_evaluating_sensors.py:")
    assert asks.look("t").error.startswith("SystemExit: 3")
    assert asks.look("u").error.startswith("the code has no sensor u")


def test_a_sensor_without_a_target_names_what_it_wants(instance: ServoInstance) -> None:
    job = define_asset_job("j", "orders+")
    asks = Asks(
        instance,
        sensor(name="a")(lambda: [RunRequest()]),
        sensor(name="b")(lambda: RunRequest(asset_selection=[AssetKey("total")])),
        sensor(name="c", jobs=[job, define_asset_job("k", "total")])(
            lambda: RunRequest(job_name="j")
        ),
        jobs=[job],
    )
    assert "requests a run without assets" in asks.look("a").error
    assert [t.asset_key for t in asks.look("b").runs[0].planned.tasks] == ["total"]
    chosen = asks.look("c").runs[0]
    assert [t.asset_key for t in chosen.planned.tasks] == ["orders", "total"]
    assert chosen.requested.labels["servo/job"] == "j"


def test_partitions_are_added_and_removed(instance: ServoInstance) -> None:
    regions = DynamicPartitionsDefinition(name="regions")
    requests = [regions.build_add_request(["eu", "us"]), regions.build_delete_request(["uk"])]
    found = SensorResult(dynamic_partitions_requests=requests)
    instance.add_dynamic_partitions("regions", ["uk"])
    answer = Asks(instance, s()(lambda: found)).look()
    assert answer.dynamic == (
        DynamicPartitionsChanged(set_name="regions", added=("eu", "us")),
        DynamicPartitionsChanged(set_name="regions", removed=("uk",)),
    )


def test_runs_of_partitions_that_come_in_the_same_evaluation_are_planned(
    instance: ServoInstance,
) -> None:
    places = DynamicPartitionsDefinition(name="places")
    instance.add_dynamic_partitions("places", ["old"])

    @asset(partitions_def=places)
    def visits() -> int:
        return 1

    @s(target=visits)
    def found(context: Any) -> Any:
        wanted = context.cursor.split(",")
        return SensorResult(
            run_requests=[RunRequest(run_key=key, partition_key=key) for key in wanted],
            dynamic_partitions_requests=[
                places.build_add_request(["rome", "a/b c,d"]),
                places.build_delete_request(["old"]),
            ],
        )

    asks = Asks(instance, found, assets=[visits])
    answer = asks.look(cursor="rome")
    assert answer.error == ""
    [run] = answer.runs
    assert [task.partition for task in run.planned.tasks] == ["partition=s:cm9tZQ"]
    assert "has no partition 'oslo'" in asks.look(cursor="oslo").error
    assert "has no partition 'old'" in asks.look(cursor="old").error, "it goes in this evaluation"


def test_of_a_partition_that_comes_and_goes_at_once_the_last_word_counts(
    instance: ServoInstance,
) -> None:
    places = DynamicPartitionsDefinition(name="places")
    instance.add_dynamic_partitions("places", ["old"])

    @s()
    def found() -> Any:
        return SensorResult(
            dynamic_partitions_requests=[
                places.build_add_request(["new"]),
                places.build_delete_request(["new", "old"]),
                places.build_add_request(["old"]),
            ]
        )

    changes = Asks(instance, found).look().dynamic
    assert changes == (
        DynamicPartitionsChanged(set_name="places", added=("new",)),
        DynamicPartitionsChanged(set_name="places", removed=("new", "old")),
        DynamicPartitionsChanged(set_name="places", added=("old",)),
    )


def test_what_a_sensor_says_of_assets_is_recorded_with_it(instance: ServoInstance) -> None:
    @s()
    def found() -> Any:
        return SensorResult(
            asset_events=[
                AssetMaterialization("orders", metadata={"rows": 2}),
                AssetObservation("total", tags={"dagster/data_version": "v8"}),
            ]
        )

    made, seen = Asks(instance, found).look().reported
    assert isinstance(made, AssetReported)
    assert (made.asset_key, made.materialization_id[:9]) == ("orders", "reported-")
    assert seen == AssetObserved(asset_key="total", data_version="v8")


def test_what_a_sensor_of_an_asset_says_of_others_is_recorded(instance: ServoInstance) -> None:
    @asset_sensor("orders", name="s", target="total")
    def copied(context: Any, event: Any) -> Any:
        del context, event
        return SensorResult(asset_events=[AssetMaterialization("copy")])

    assert materialize([orders], instance=instance).success
    answer = Asks(instance, copied).look()
    assert [event.asset_key for event in answer.reported] == ["copy"]


def test_what_is_no_text_is_told_as_such(instance: ServoInstance) -> None:
    @s()
    def lists(context: Any) -> Any:
        name = b"bad\xff.csv".decode("utf-8", "surrogateescape")
        if context.cursor == "raises":
            raise ValueError(name)
        return {"cursor": SensorResult(cursor=name), "reason": SkipReason(name)}[context.cursor]

    asks = Asks(instance, lists)
    assert "bad\\udcff.csv" in asks.look(cursor="raises").error
    for case in ("raises", "cursor", "reason"):
        answer = answers.decode(as_sent(asks.look(cursor=case)))
        assert isinstance(answer, Evaluated)
        assert "\\udcff" in answer.error


def test_what_is_so_already_is_not_asked_for_again(instance: ServoInstance) -> None:
    regions = DynamicPartitionsDefinition(name="regions")
    requests = [regions.build_add_request(["eu", "us"]), regions.build_delete_request(["uk"])]
    found = SensorResult(dynamic_partitions_requests=requests)
    instance.add_dynamic_partitions("regions", ["eu"])
    answer = Asks(instance, s()(lambda: found)).look()
    assert answer.dynamic == (DynamicPartitionsChanged(set_name="regions", added=("us",)),)


def test_resources_are_opened_for_a_sensor(instance: ServoInstance) -> None:
    class Shop(servo.ConfigurableResource):
        name: str

    @s()
    def found(context: Any, shop: Shop) -> SkipReason:
        return SkipReason(f"{shop.name} for {context.sensor_name}")

    assert Asks(instance, found, resources={"shop": Shop(name="corner")}).look().skipped == (
        "corner for s"
    )


# --- messages -------------------------------------------------------------------------------------


def test_a_push_sensor_is_told_of_each_message(instance: ServoInstance) -> None:
    @push_sensor(name="s", target="orders")
    def arrived(context: Any) -> Any:
        if context.payload is None:
            return SkipReason(f"{context.message_id} at {context.received_at:%H:%M}")
        return RunRequest(run_key=str(context.payload["n"]))

    first, second, bad, last = Asks(instance, arrived).tell('{"n": 1}', "", "{", '{"n": 4}')
    assert told(first) == ["sensor:s:key:1"]
    assert second.skipped == "m1 at 06:00"
    assert bad.error.startswith("the payload of message m2 is not JSON")
    assert told(last) == ["sensor:s:key:4"]
    assert arrived(build_push_sensor_context({"n": 3})) == RunRequest(run_key="3")


def test_a_large_payload_is_read_from_the_store(instance: ServoInstance) -> None:
    @push_sensor(name="s", target="orders")
    def arrived(context: Any) -> SkipReason:
        return SkipReason(str(len(context.payload)))

    asks = Asks(instance, arrived)
    digest = "a" * 64
    instance.world.store.put(instance.paths.plan(digest), b'"' + b"x" * 100_000 + b'"')
    message = Message(message_id="m", eval_id="e", received_at=NOW, payload_digest=digest)
    (answer,) = evaluate_messages(
        asks.loaded, EvaluateMessages(sensor_id="s", messages=(message,))
    ).answers
    assert answer.skipped == "100000"


def test_a_push_sensor_that_is_no_more_or_sets_a_cursor_fails(instance: ServoInstance) -> None:
    moving = push_sensor(name="s", target="*")(lambda: SensorResult(cursor="3"))
    asks = Asks(instance, moving, sensor(name="t", target="*")(lambda: None))
    assert "has no cursor" in asks.tell("1")[0].error
    assert "takes no messages" in asks.tell("1", "2", name="t")[0].error
    assert "has no sensor gone" in asks.tell("1", name="gone")[0].error
    assert "is a push sensor; send it a message" in asks.look().error
    with pytest.raises(Invalid, match="has no cursor"):
        build_push_sensor_context(1).update_cursor("3")


def test_slow_messages_are_answered_a_few_at_a_time(instance: ServoInstance) -> None:
    clock = ManualClock(NOW)
    instance.world.clock = clock

    @push_sensor(name="s", target="orders")
    def slow() -> None:
        clock.advance(timedelta(seconds=0.6))

    assert len(Asks(instance, slow).tell("1", "2", "3", "4")) == 2


# --- assets ---------------------------------------------------------------------------------------


def make(instance: ServoInstance, *assets: Any) -> str:
    done = materialize(
        [orders, total, broken], selection=list(assets), instance=instance, raise_on_error=False
    )
    return done.run_id


def test_a_sensor_of_an_asset_is_told_of_the_newest_output(instance: ServoInstance) -> None:
    @asset_sensor(name="s", asset_key="orders", target="total")
    def made(context: Any, event: Any) -> RunRequest:
        assert context.sensor_name == "s"
        assert event.asset_materialization.asset_key == AssetKey("orders")
        return RunRequest(run_key=event.run_id)

    asks = Asks(instance, made)
    make(instance, "total")
    assert asks.look() == Evaluated()
    make(instance, "orders")
    last = make(instance, "orders")
    answer = asks.look()
    assert told(answer) == [f"sensor:s:key:{last}"]
    assert asks.look(cursor=answer.cursor) == Evaluated()
    again = make(instance, "orders")
    assert told(asks.look(cursor=answer.cursor)) == [f"sensor:s:key:{again}"]


def test_a_sensor_of_each_event_is_told_of_every_output_in_order(instance: ServoInstance) -> None:
    seen: list[str] = []

    @asset_sensor(name="s", asset_key="orders", each_event=True)
    def each(context: Any, event: Any) -> None:
        assert context.sensor_name == "s"
        seen.append(event.run_id)
        if len(seen) == 3:
            raise ValueError("not this one")

    asks = Asks(instance, each)
    first = make(instance, "orders")
    start = asks.look()
    more = [make(instance, "orders") for _ in range(3)]
    part = asks.look(cursor=start.cursor)
    assert (seen, part.more) == ([first, *more[:2]], True)
    # The one that failed comes first now, and then the rest.
    del seen[2:]
    seen.append("mended")
    rest = asks.look(cursor=part.cursor)
    assert (seen, rest.more) == ([first, more[0], "mended", *more[1:]], False)
    assert asks.look(cursor=rest.cursor) == Evaluated()


def test_a_sensor_of_several_assets_moves_the_cursor_of_each(instance: ServoInstance) -> None:
    @multi_asset_sensor(name="s", monitored_assets=["orders", "total"], target="total")
    def both(context: Any) -> Any:
        found = context.latest_materialization_records_by_key()
        assert tuple(found) == context.asset_keys == (AssetKey("orders"), AssetKey("total"))
        if not all(found.values()):
            return SkipReason("one is missing")
        assert context.materialization_records_for_key("orders", limit=1)
        assert context.latest_materialization_records_by_partition("orders") == {}
        assert context.latest_materialization_records_by_partition_and_asset() == {}
        context.advance_all_cursors()
        return RunRequest()

    asks = Asks(instance, both)
    make(instance, "orders")
    assert asks.look().skipped == "one is missing"
    make(instance, "total")
    answer = asks.look()
    assert (len(answer.runs), answer.error) == (1, "")
    make(instance, "orders")
    assert asks.look(cursor=answer.cursor).skipped == "one is missing"
    context = build_multi_asset_sensor_context(["orders", "total"], instance=instance)
    assert isinstance(both(context), RunRequest)
    with pytest.raises(Invalid, match="does not monitor broken"):
        context.advance_cursor({"broken": None})


def test_partitions_that_a_cursor_leaves_behind_are_told_until_they_are_done_with(
    instance: ServoInstance,
) -> None:
    days = StaticPartitionsDefinition(["mon", "tue", "wed"])

    @asset(partitions_def=days)
    def left() -> int:
        return 1

    @asset(partitions_def=days)
    def right() -> int:
        return 2

    @multi_asset_sensor(name="s", monitored_assets=["left", "right"], target="total")
    def both(context: Any) -> Any:
        found = context.latest_materialization_records_by_partition_and_asset()
        for day, records in found.items():
            if len(records) == 2:
                context.advance_cursor(records)
                yield RunRequest(run_key=day)

    def made(which: Any, *keys: str) -> None:
        for key in keys:
            assert materialize([which], partition_key=key, instance=instance).success

    asks = Asks(instance, both, assets=[left, right])
    made(left, "mon", "tue", "mon", "wed")
    made(right, "tue")
    first = asks.look()
    assert told(first) == ["sensor:s:key:tue"], first.error
    context = build_multi_asset_sensor_context(["left", "right"], instance, cursor=first.cursor)
    [behind] = context.get_trailing_unconsumed_events("left")
    assert behind.partition_key == "mon"
    assert list(context.latest_materialization_records_by_partition("left")) == ["mon", "wed"]
    newest = context.latest_materialization_records_by_key(["left"])[AssetKey("left")]
    assert newest.partition_key == "wed"

    made(right, "mon")
    second = asks.look(cursor=first.cursor)
    assert told(second) == ["sensor:s:key:mon"]
    context = build_multi_asset_sensor_context(["left", "right"], instance, cursor=second.cursor)
    assert context.get_trailing_unconsumed_events("left") == []
    assert told(asks.look(cursor=second.cursor)) == []
    made(left, "tue")
    made(right, "wed")
    third = asks.look(cursor=second.cursor)
    assert told(third) == ["sensor:s:key:wed"]
    last = build_multi_asset_sensor_context(["left", "right"], instance, cursor=third.cursor)
    assert list(last.latest_materialization_records_by_partition("left")) == ["tue"]
    last.advance_all_cursors()
    assert last.latest_materialization_records_by_partition("left") == {}


@pytest.mark.parametrize(
    ("said", "cursor", "wrong"),
    [
        (RunRequest(), None, "requests runs without advancing its cursor"),
        (SensorResult(cursor="3"), None, "sets its own cursor"),
        (None, "not json", "is not a multi-asset sensor cursor"),
    ],
)
def test_a_sensor_of_several_assets_keeps_no_cursor_of_its_own(
    instance: ServoInstance, said: Any, cursor: str | None, wrong: str
) -> None:
    make(instance, "orders")
    both = multi_asset_sensor(name="s", monitored_assets=["orders"], target="total")(lambda: said)
    assert wrong in Asks(instance, both).look(cursor=cursor).error
    with pytest.raises(Invalid, match="sets its own cursor"):
        build_multi_asset_sensor_context(["orders"]).update_cursor("3")


def test_assets_that_nobody_knows_cannot_be_watched() -> None:
    both = multi_asset_sensor(name="s", monitored_assets=["nowhere"])(lambda: None)
    with pytest.raises(ServoError, match="nowhere"):
        Definitions([orders], sensors=[both]).project()


# --- runs -----------------------------------------------------------------------------------------


def test_a_sensor_of_runs_is_told_of_each_once(instance: ServoInstance) -> None:
    seen: list[Any] = []

    @run_failure_sensor(name="s")
    def failed(context: Any) -> None:
        (step,) = context.for_run_failure().get_step_failure_events()
        seen.append((context.dagster_run.run_id, context.failure_event.message, step.asset_key))

    @run_status_sensor(name="t", run_status=RunStatus.STARTED)
    def started(context: Any) -> None:
        seen.append(context.run.run_id)

    asks = Asks(instance, failed, started)
    make(instance, "orders")
    assert asks.look() == Evaluated()
    run = make(instance, "broken")
    answer = asks.look()
    assert seen == [(run, "broken: ValueError: out of paper", "broken")]
    assert answer.skipped == f"notified of the run {run}"
    assert asks.look(cursor=answer.cursor) == Evaluated()
    seen.clear()
    began = asks.look("t")
    assert len(seen) == 2
    make(instance, "orders")
    assert asks.look("t", cursor=began.cursor).skipped.startswith("notified of the run")
    assert len(seen) == 3


def test_a_sensor_of_runs_begins_where_it_was_started(instance: ServoInstance) -> None:
    ended = run_status_sensor(name="s", run_status=RunStatus.SUCCESS)(lambda: SkipReason("told"))
    asks = Asks(instance, ended)
    make(instance, "orders")
    seq = asks.loaded.history.snapshot(0).applied_seq
    assert asks.look(since=seq) == Evaluated()
    make(instance, "orders")
    assert asks.look(since=seq).skipped == "told"


@pytest.mark.parametrize("kind", ["assets", "runs"])
def test_a_sensor_for_which_nothing_happens_moves_on_now_and_then(
    instance: ServoInstance, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @asset_sensor("orders", name="s", target="total")
    def assets(context: Any, event: Any) -> None:
        del context
        seen.append(event.run_id)

    @run_failure_sensor(name="s")
    def runs(context: Any) -> None:
        seen.append(context.run.run_id)

    asks = Asks(instance, {"assets": assets, "runs": runs}[kind])
    make(instance, "total")
    assert asks.look(cursor="1").cursor is None
    monkeypatch.setattr(watching, "FAR_BEHIND", 2)
    moved = asks.look(cursor="1").cursor
    assert moved is not None
    assert int(moved) > 3
    make(instance, "orders")
    assert not materialize([broken], instance=instance, raise_on_error=False).success
    _ = asks.look(cursor=moved)
    assert len(seen) == 1


def test_only_runs_of_monitored_jobs_are_told(instance: ServoInstance) -> None:
    jobs = [define_asset_job("j", "orders")]
    ended = run_status_sensor(name="s", run_status=RunStatus.SUCCESS, monitored_jobs=jobs)(
        lambda: SkipReason("told")
    )
    make(instance, "orders")
    assert Asks(instance, ended, jobs=jobs).look() == Evaluated()


def test_what_a_sensor_of_runs_fails_on_is_passed_over_in_the_end(instance: ServoInstance) -> None:
    def failing() -> None:
        raise ValueError("the pager is off")

    ended = run_status_sensor(name="s", run_status=RunStatus.SUCCESS)(failing)
    asks = Asks(instance, ended)
    run = make(instance, "orders")
    assert asks.look(failures=GIVE_UP_AFTER - 2).error.startswith("ValueError: the pager is off")
    answer = asks.look(failures=GIVE_UP_AFTER - 1)
    assert answer.skipped.startswith(f"skipped the run {run} after {GIVE_UP_AFTER} failures")
    assert asks.look(cursor=answer.cursor) == Evaluated()


def test_after_a_failure_each_run_is_told_alone_and_one_is_passed_over_if_it_must_be(
    instance: ServoInstance,
) -> None:
    seen: list[str] = []

    @run_status_sensor(RunStatus.SUCCESS, name="s")
    def done(context: Any) -> None:
        seen.append(context.run.run_id)

    asks = Asks(instance, done)
    for _ in range(3):
        make(instance, "orders")
    first = asks.look(cursor="1", failures=1, alone=True)
    assert (len(seen), first.more) == (1, True)
    second = asks.look(cursor=first.cursor, failures=5, alone=True, pass_over=True)
    assert (len(seen), second.more) == (1, True)
    assert second.skipped.endswith("after 5 failures: no answer")
    third = asks.look(cursor=second.cursor)
    assert (len(seen), third.more) == (2, False)


def test_a_place_is_a_cursor_and_back() -> None:
    for place in (HistoryCursor(7), HistoryCursor(7, ("a", "b"))):
        assert HistoryCursor.read(place.text()) == place
    with pytest.raises(Invalid, match="is not a ledger entry"):
        HistoryCursor.read("yesterday")


# --- freshness ------------------------------------------------------------------------------------


def test_a_freshness_check_runs_once_its_asset_is_too_old(instance: ServoInstance) -> None:
    check = freshness("orders", max_age=timedelta(hours=1))
    made = build_sensor_for_freshness_checks(freshness_checks=[check], name="s")
    asks = Asks(instance, made, asset_checks=[check])
    assert asks.look().skipped == "nothing is too old"
    make(instance, "orders")
    assert asks.look().skipped == "nothing is too old"
    asks.loaded.clock = ManualClock(asks.loaded.clock.now() + timedelta(hours=2))
    answer = asks.look()
    assert [task.task_key for task in answer.runs[0].planned.tasks] == ["orders:check"]
    assert asks.look(cursor=answer.cursor).skipped == "nothing is too old"
    with pytest.raises(Invalid, match="is not a freshness check"):
        build_sensor_for_freshness_checks(freshness_checks=[row_count("orders", min=1)])


def test_a_check_of_the_last_update_runs_once_its_asset_is_too_old(
    instance: ServoInstance,
) -> None:
    checks = build_last_update_freshness_checks([orders], lower_bound_delta=timedelta(hours=1))
    made = build_sensor_for_freshness_checks(freshness_checks=checks, name="s")
    asks = Asks(instance, made, asset_checks=checks)
    make(instance, "orders")
    assert asks.look().skipped == "nothing is too old"
    asks.loaded.clock = ManualClock(asks.loaded.clock.now() + timedelta(hours=2))
    assert [task.task_key for task in asks.look().runs[0].planned.tasks] == ["orders:check"]


def test_a_check_with_deadlines_runs_once_after_each(instance: ServoInstance) -> None:
    checks = build_last_update_freshness_checks(
        [orders], lower_bound_delta=timedelta(hours=1), deadline_cron="0 * * * *"
    )
    made = build_sensor_for_freshness_checks(freshness_checks=checks, name="s")
    asks = Asks(instance, made, asset_checks=checks)
    make(instance, "orders")
    answer = asks.look()
    assert [task.task_key for task in answer.runs[0].planned.tasks] == ["orders:check"]
    assert asks.look(cursor=answer.cursor).skipped == "nothing is too old"
    asks.loaded.clock = ManualClock(asks.loaded.clock.now() + timedelta(hours=1))
    assert len(asks.look(cursor=answer.cursor).runs) == 1


# --- what a deployment tells ----------------------------------------------------------------------


def test_a_deployment_tells_what_a_sensor_is() -> None:
    sensors = [
        sensor(name="a", target="orders", minimum_interval_seconds=5, timeout_seconds=0.5)(
            lambda: None
        ),
        push_sensor(name="b", target="orders")(lambda: None),
        asset_sensor(name="c", asset_key="orders")(lambda: None),
        run_failure_sensor(name="d")(lambda: None),
    ]
    told = declared(Definitions([orders], sensors=sensors).project()).sensors
    assert [one.labels["servo/kind"] for one in told] == ["poll", "push", "assets", "runs"]
    assert [one.mode for one in told[:2]] == [SensorMode.POLL, SensorMode.PUSH]
    assert (told[0].min_interval_ms, told[0].timeout_ms, told[0].asset_selection) == (
        5_000,
        500,
        ("orders",),
    )
    with pytest.raises(Invalid, match="timeout_seconds is 0"):
        sensor(name="a", target="*", timeout_seconds=0)(lambda: None)
