"""Schedules and sensors that hand secrets back: redacted, or refused where that would do harm."""

import logging
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from servo import (
    AssetCheckKey,
    AssetMaterialization,
    AssetObservation,
    Definitions,
    DynamicPartitionsDefinition,
    EnvVar,
    RunConfig,
    RunRequest,
    SensorResult,
    ServoInstance,
    SkipReason,
    asset,
    asset_check,
    define_asset_job,
    schedule,
    sensor,
)
from servo.code.evaluator.answering import answer_to
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import (
    DescribeCode,
    Evaluated,
    EvaluateSensor,
    EvaluateTick,
    PlanRun,
    Refused,
)
from servo.code.evaluator.plan_store import PlanStore
from servo.core.tags import CONFIG_LABEL
from servo.errors import Invalid
from servo.sdk.resources.redaction import hidden

CANARY = "canary-in-the-mine"
PORT = "5432"
NOW = datetime(2025, 1, 15, 6, tzinfo=UTC)
REFUSED = "contains a value that was read from a Secret or an EnvVar"

customers = DynamicPartitionsDefinition(name="customers")


@asset
def orders() -> int:
    return 1


@asset(partitions_def=customers)
def of_customer() -> int:
    return 1


@asset_check(asset=orders)
def counted() -> bool:
    return True


@pytest.fixture(autouse=True)
def secrets() -> Generator[None]:
    hidden().clear()
    hidden().add(CANARY)
    hidden().add(PORT)
    yield
    hidden().clear()


@pytest.fixture
def instance() -> ServoInstance:
    return ServoInstance.ephemeral()


def loaded(instance: ServoInstance, **more: Any) -> LoadedLocation:
    assets = [orders, of_customer, *more.pop("assets", ())]
    project = Definitions(assets, asset_checks=[counted], **more).project()
    records = PlanStore(store=instance.world.store, paths=instance.paths, salt=bytes(32))
    around = EvaluatorEnvironment(
        clock=instance.world.clock,
        entropy=instance.world.entropy,
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: instance,
    )
    return LoadedLocation(project, records, around)


def looked(instance: ServoInstance, result: Callable[[], Any]) -> Evaluated:
    """What a sensor that returns this answers."""

    @sensor(name="s", target="orders")
    def made() -> Any:
        return result()

    question = EvaluateSensor(sensor_id="s", eval_id="e")
    answer: Any = answer_to(loaded(instance, sensors=[made]), question)
    assert CANARY not in repr(answer)
    return answer


def raises() -> Any:
    raise ValueError(CANARY)


# --- redacted -------------------------------------------------------------------------------------


def test_a_skip_reason_is_redacted(instance: ServoInstance) -> None:
    answer = looked(instance, lambda: SkipReason(f"no file at {CANARY}"))
    assert answer.skipped == "no file at ***"


def test_an_error_is_redacted(instance: ServoInstance) -> None:
    assert looked(instance, raises).error.startswith("ValueError: *** (")


def test_tags_are_redacted_whatever_their_names(instance: ServoInstance) -> None:
    tags = {"a": f"x-{CANARY}", CANARY: "b", "servo/job": CANARY}
    answer = looked(instance, lambda: RunRequest(run_key="k", tags=tags))
    labels = answer.runs[0].requested.labels
    assert labels == {"a": "x-***", "***": "b", "servo/job": "***", "servo/sensor": "s"}


def test_a_request_is_the_same_whatever_the_secret_in_its_tags_is(instance: ServoInstance) -> None:
    other = "another-canary"

    def asked(secret: str) -> str:
        hidden().clear()
        hidden().add(secret)
        answer = looked(instance, lambda: RunRequest(run_key="k", tags={"a": secret}))
        return answer.runs[0].requested.request_fingerprint

    assert asked(CANARY) == asked(other)


def test_metadata_and_versions_of_reported_assets_are_redacted(instance: ServoInstance) -> None:
    seen = AssetObservation("x", metadata={"a": CANARY}, tags={"dagster/data_version": CANARY})
    made = AssetMaterialization("x", metadata={"b": CANARY})
    answer = looked(instance, lambda: SensorResult(asset_events=[seen, made]))
    assert [event.metadata for event in answer.reported] == [
        '{"a":{"type":"text","value":"***"}}',
        '{"b":{"type":"text","value":"***"}}',
    ]
    assert answer.reported[0].data_version == "***"


def test_what_code_declares_is_redacted_but_for_names(instance: ServoInstance) -> None:
    @asset(name=f"of_{PORT}", description=CANARY, tags={"a": CANARY}, owners=[f"{CANARY}@x.org"])
    def described() -> int:
        return 1

    answer: Any = answer_to(loaded(instance, assets=[described]), DescribeCode())
    found = next(one for one in answer.declared.assets if one.description)
    assert (found.asset_key, found.description, found.tags) == (f"of_{PORT}", "***", {"a": "***"})
    assert CANARY not in repr(answer)


def test_a_large_plan_is_stored_without_secrets(instance: ServoInstance) -> None:
    def made(n: int) -> Any:
        @asset(name=f"asset_{n}", op_tags={"a": CANARY})
        def one() -> int:
            return n

        return one

    many = [made(n) for n in range(201)]

    @sensor(name="s", target=many)
    def asks() -> Any:
        return RunRequest(run_key="k")

    code = loaded(instance, assets=many, sensors=[asks])
    answer: Any = answer_to(code, EvaluateSensor(sensor_id="s", eval_id="e"))
    assert answer.runs[0].planned.segments, answer.error
    store = instance.world.store
    stored = b"".join(store.get(meta.key).data for meta in store.list_after(""))
    assert b"asset_200" in stored
    assert CANARY.encode() not in stored


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "result"),
    [
        ("the cursor", lambda: SensorResult(cursor=f"at {CANARY}")),
        ("a run key", lambda: RunRequest(run_key=f"run-{CANARY}")),
        ("the run_config", lambda: RunRequest(run_key="k", run_config={"ops": {"a": CANARY}})),
        (
            "a new key of customers",
            lambda: SensorResult(
                dynamic_partitions_requests=[customers.build_add_request([f"c-{CANARY}"])]
            ),
        ),
        (
            "a partition key",
            lambda: RunRequest(
                run_key="k",
                asset_check_keys=[AssetCheckKey(orders.key, "counted")],
                partition_key=CANARY,
            ),
        ),
        (
            "the partition key of an event of x",
            lambda: SensorResult(asset_events=[AssetMaterialization("x", partition=CANARY)]),
        ),
    ],
)
def test_a_secret_in_what_must_not_change_is_refused(
    instance: ServoInstance, field: str, result: Callable[[], Any]
) -> None:
    answer = looked(instance, result)
    assert f"{field} {REFUSED}" in answer.error
    assert (answer.runs, answer.dynamic, answer.cursor) == ((), (), None)


def test_a_reference_in_a_run_config_is_sent_as_one(instance: ServoInstance) -> None:
    config = RunConfig(ops={"orders": {"config": {"token": EnvVar("TOKEN")}}})
    answer = looked(instance, lambda: RunRequest(run_key="k", run_config=config))
    assert '"token":{"env":"TOKEN"}' in answer.runs[0].requested.labels[CONFIG_LABEL]


def test_small_numbers_are_let_through_where_secrets_are_refused(instance: ServoInstance) -> None:
    cursor, key = f"17{PORT}", f"file-{PORT}"
    config = {"ops": {"orders": {"config": {"port": 5432}}}}
    request = RunRequest(run_key=key, run_config=config)
    answer = looked(instance, lambda: SensorResult(run_requests=[request], cursor=cursor))
    assert (answer.error, answer.cursor) == ("", cursor)
    assert answer.runs[0].requested.run_key == f"sensor:s:key:{key}"
    assert "5432" in answer.runs[0].requested.labels[CONFIG_LABEL]


def test_a_schedule_is_treated_as_a_sensor_is(instance: ServoInstance) -> None:
    def told(result: Any) -> Any:
        @schedule(name="d", target="orders", cron_schedule="@daily")
        def daily() -> Any:
            return result

        question = EvaluateTick(schedule_id="d", tick_id="d:1", scheduled_for=NOW)
        answer = answer_to(loaded(instance, schedules=[daily]), question)
        assert CANARY not in repr(answer)
        return answer

    assert told(SkipReason(CANARY)).skipped == "***"
    assert told(RunRequest(tags={"a": CANARY})).runs[0].requested.labels["a"] == "***"
    assert f"schedule d: a run key {REFUSED}" in told(RunRequest(run_key=CANARY)).error
    config = {"ops": {"a": CANARY}}
    assert f"schedule d: the run_config {REFUSED}" in told(RunRequest(run_config=config)).error


def test_a_secret_in_the_configuration_of_a_job_is_refused(instance: ServoInstance) -> None:
    job = define_asset_job("daily", [orders], config={"ops": {"orders": {"config": {"t": CANARY}}}})
    answer = answer_to(loaded(instance, jobs=[job]), PlanRun(job="daily"))
    assert isinstance(answer, Refused)
    assert f"job daily: the run_config {REFUSED}" in answer.message


# --- through the instance -------------------------------------------------------------------------


def test_what_code_changes_through_an_instance_is_redacted_or_refused(
    instance: ServoInstance,
) -> None:
    event = AssetMaterialization("x", metadata={"a": CANARY})
    instance.report_runless_asset_event(event)
    with pytest.raises(Invalid, match=f"a new key of customers {REFUSED}"):
        instance.add_dynamic_partitions("customers", ["a", CANARY])
    store = instance.world.store
    stored = b"".join(store.get(meta.key).data for meta in store.list_after(""))
    assert CANARY.encode() not in stored
