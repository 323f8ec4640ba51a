"""What is refused before it is written: ids that could do harm, wherever in a batch they stand."""

from collections.abc import Iterator

import msgspec.inspect as inspected
import pytest
from msgspec.structs import replace

from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.codec import encode_batch, read_back
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Batch, Event
from servo.core.events.quotas import PoolLimitSet
from servo.core.events.registry import EVENTS
from servo.core.events.runs import (
    PlanCreated,
    PlanSegment,
    RunCancelRequested,
    RunRequested,
    ScheduleSource,
)
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome, TaskStarted
from servo.core.events.validate import MAX_ID_BYTES, check_batch, field_checks
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.errors import Invalid

UP = "../secret"
RUN = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
STARTED = TaskStarted(run_id="run_1", task_key="t", attempt_id="a", exec_id="e")
FINISHED = TaskFinished(
    run_id="run_1", task_key="t", attempt_id="a", exec_id="e", outcome=TaskOutcome.SUCCEEDED
)
SPEC = TaskSpec(task_key=TaskKeyStr("ns/a:materialize"), asset_key="ns/a")


def deployed(policy: str) -> DefinitionsDeployed:
    asset = AssetDefinition(asset_key="ns/a", freshness_policy=policy)
    return DefinitionsDeployed(deployment_id="d", assets=(asset,))


SCHEDULE = ScheduleUpserted(schedule_id="s", cron_expressions=("* * * * *",))


def sent(event: Event, **fields: str) -> Batch:
    return replace(Batch(id="b", events=(event,)), **fields)


def plan(**fields: str) -> PlanCreated:
    """A plan of one task with these fields."""
    return PlanCreated(run_id="run_1", fingerprint="p", tasks=(replace(SPEC, **fields),))


def refused(batch: Batch, raw: bytes = b"") -> bool:
    try:
        check_batch(batch, raw)
    except Invalid:
        return True
    return False


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        (sent(RUN, id=UP), "batch id"),
        (sent(RUN, request_id=UP), "idempotency key"),
        (sent(RUN, actor="ada"), "KIND:NAME"),
        (sent(RUN, actor="user:a\\b"), "actor"),
        (sent(RUN, cause="yesterday"), "cause 'yesterday' is not a ledger position"),
        (sent(RUN, correlation=UP), "correlation"),
        (sent(replace(RUN, run_id="")), "run_id is empty"),
        (sent(replace(RUN, run_key="x" * (MAX_ID_BYTES + 1))), "run_key is longer"),
        (sent(replace(RUN, asset_selection=("ns/a", UP))), "asset_selection"),
        (sent(replace(RUN, parent_run_id=UP)), "parent_run_id"),
        (sent(replace(RUN, source=ScheduleSource(schedule_id="S!", tick_id="t"))), "schedule_id"),
        (sent(replace(STARTED, worker_id="a\\b")), "worker_id"),
        (sent(replace(STARTED, exec_id="%2e%2e/x")), "exec_id"),
        (
            sent(replace(FINISHED, output=CommittedOutput(materialization_id=UP))),
            "materialization_id",
        ),
        (
            sent(
                DispatchRequested(
                    run_id="r", task_key="t", attempt=1, handover=Handover(exec_id=UP)
                )
            ),
            "exec_id",
        ),
        (sent(PoolLimitSet(pool="No such name")), "pool"),
        (sent(plan(task_key=UP)), "task key"),
        (sent(plan(asset_key=UP)), "asset key"),
        (sent(plan(partition=UP)), "partition key"),
        (sent(plan(partition="")), "partition key is empty"),
        (sent(plan(pool="No such name")), "pool"),
        (sent(plan(queue="No such name")), "queue"),
        (
            sent(
                PlanCreated(
                    run_id="r", fingerprint="p", segments=(PlanSegment(digest="xyz", count=1),)
                )
            ),
            "digest is not a SHA-256 digest in hex",
        ),
    ],
)
def test_an_id_that_could_do_harm_is_refused_and_named(batch: Batch, what: str) -> None:
    with pytest.raises(Invalid, match=what):
        check_batch(batch)


@pytest.mark.parametrize(
    "batch",
    [
        sent(RUN, request_id="mine"),
        sent(RUN, actor="user:ada@laptop", cause="12.3", correlation="order-7"),
        sent(replace(RUN, source=ScheduleSource(schedule_id="daily", tick_id="daily:0"))),
        sent(replace(STARTED, worker_id="")),
        sent(replace(FINISHED, output=CommittedOutput(materialization_id=""))),
        sent(PoolLimitSet(pool="")),
        sent(plan(asset_key="")),
        sent(plan(partition="day=d:2025-01-01", pool="db", queue="gpu")),
        sent(replace(RUN, run_key="§.ü")),
        sent(SCHEDULE),
        sent(
            PlanCreated(
                run_id="r", fingerprint="p", segments=(PlanSegment(digest="0a" * 32, count=1),)
            )
        ),
    ],
)
def test_an_id_that_is_safe_or_may_be_left_out_passes(batch: Batch) -> None:
    check_batch(batch)


def test_every_event_of_a_batch_is_checked() -> None:
    with pytest.raises(Invalid, match="run_id"):
        check_batch(Batch(id="b", events=(RUN, replace(RUN, run_id=UP))))


@pytest.mark.parametrize(
    "event",
    [
        STARTED,
        FINISHED,
        replace(FINISHED, output=CommittedOutput(materialization_id="m")),
        replace(FINISHED, output=CommittedOutput(materialization_id=UP)),
        replace(STARTED, worker_id="%2e"),
        replace(STARTED, worker_id="ü"),
        replace(STARTED, exec_id="\u202e"),
        replace(STARTED, exec_id="e\x7f"),
        replace(STARTED, run_id="."),
        replace(RUN, source=ScheduleSource(schedule_id="No such name", tick_id="t")),
        RunCancelRequested(run_id="run_1"),
        PoolLimitSet(pool="No such name"),
        plan(queue="No such name"),
        SCHEDULE,
        replace(SCHEDULE, cron_expressions=("61 * * * *",)),
        deployed(""),
        deployed('{"fail_ms":1,"kind":"time_window"}'),
        deployed('{"fail_ms":0,"kind":"time_window"}'),
    ],
)
def test_a_look_at_the_bytes_refuses_what_a_look_at_each_event_does(event: Event) -> None:
    raw = encode_batch(sent(event))
    batch = read_back(raw)
    assert refused(batch, raw) is refused(batch)


def test_a_policy_that_no_one_can_judge_by_is_refused_at_deploy() -> None:
    check_batch(sent(deployed('{"fail_ms":1,"kind":"time_window"}')))
    with pytest.raises(Invalid, match="not a freshness policy"):
        check_batch(sent(deployed("daily")))
    bad = '{"deadline_cron":"61 * * * *","kind":"cron","lower_bound_ms":1}'
    with pytest.raises(Invalid, match="cron expression"):
        check_batch(sent(deployed(bad)))


# --- validation goes by the names of fields -------------------------------------------------------

WITHOUT_IDS = {"selector", "error", "cost", "log", "retry"}
"""Fields with structs that hold no id."""


def structs_of(kind: inspected.Type) -> Iterator[inspected.StructType]:
    match kind:
        case inspected.StructType():
            yield kind
        case inspected.UnionType():
            for one in kind.types:
                yield from structs_of(one)
        case inspected.VarTupleType():
            yield from structs_of(kind.item_type)
        case _:
            pass


def is_id(kind: inspected.Type) -> bool:
    """Whether a field is declared as an `Id`, or as several."""
    match kind:
        case inspected.StrType():
            return kind.max_length == MAX_ID_BYTES
        case inspected.UnionType():
            return any(is_id(one) for one in kind.types)
        case inspected.VarTupleType():
            return is_id(kind.item_type)
        case _:
            return False


def unchecked(kind: inspected.StructType) -> Iterator[str]:
    """The fields of an event, and of the structs in it, that hold ids and are not checked."""
    checked = {name for name, _ in field_checks(kind.cls)}
    for field in kind.fields:
        below = [] if field.name in WITHOUT_IDS else list(structs_of(field.type))
        if (below or is_id(field.type)) and field.name not in checked:
            yield f"{kind.cls.__name__}.{field.name}"
        for struct in below:
            if struct.cls is not TaskSpec:  # checked field by field
                yield from unchecked(struct)


@pytest.mark.parametrize("event", EVENTS.values())
def test_every_id_of_an_event_is_checked(event: type[Event]) -> None:
    kind = inspected.type_info(event)
    assert isinstance(kind, inspected.StructType)
    assert list(unchecked(kind)) == []
