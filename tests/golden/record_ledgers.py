"""Record ledgers that today's code, and all later code, must fold to the same tables.

    python tests/golden/record_ledgers.py NAME   writes one that does not exist yet

A recorded ledger is never changed. When events or rules grow, record another one.
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.codec import decode_entry, encode_batch
from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    DispatchEnqueued,
    DispatchRequested,
    ExecutionTimedOut,
    LeaseExpired,
)
from servo.core.events.envelope import Batch, Event, Status, Verdict
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.originals import inbox_source, original_of
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    PlanCreated,
    PlanDeadlineExceeded,
    PlanFailed,
    RerunSource,
    RunAdmitted,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorCursorReset,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorPaused,
    SensorRemoved,
    SensorResumed,
    SensorUpserted,
)
from servo.core.events.tasks import (
    CommittedOutput,
    Gate,
    TaskCost,
    TaskError,
    TaskFinished,
    TaskOutcome,
    TaskStarted,
)
from servo.core.events.timers import (
    TimerCancelled,
    TimerEnqueued,
    TimerRequested,
    TimerType,
)
from servo.core.fold.apply import apply_entry
from servo.core.fold.timers import firing_of
from servo.core.freshness import FreshnessState
from servo.core.keys import TaskOperation
from servo.core.retry import RetryRules
from servo.core.state.state import State
from servo.testing.builders import Story, dump, specs

FOLDER = Path(__file__).parent / "ledgers"


def execution() -> Story:
    """Runs that succeed, fail, retry, lose a worker, skip, and are cancelled."""
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=10), PoolLimitSet(pool="db", limit=2))
    story.tell(LaneWeightSet(lane="bulk", weight=50))
    story.plan({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, "run_1")
    story.execute("a", run_id="run_1")
    story.start("b", "run_1")
    row = story.task("b", "run_1")
    story.tell(
        DispatchEnqueued(
            run_id="run_1", task_key=row.task_key, attempt_id=row.attempt_id, delivery=1
        )
    )
    story.finish("b", TaskOutcome.FAILED, "run_1", error=TaskError(code="UserCodeException"))
    story.wait(seconds=31)
    story.tell(firing_of(next(iter(story.state.timers.rows.values()))))
    story.execute("b", run_id="run_1")
    story.dispatch("c", "run_1")
    lost = story.task("c", "run_1")
    story.wait(seconds=31)
    story.tell(
        DispatchAckTimedOut(
            run_id="run_1", task_key=lost.task_key, attempt_id=lost.attempt_id, delivery=1
        )
    )
    story.claim("c", "run_1")
    story.finish("c", run_id="run_1", cost=TaskCost(cpu_ms=5, wall_ms=9))
    story.start("d", "run_1")
    silent = story.task("d", "run_1")
    story.wait(minutes=6)
    story.tell(
        LeaseExpired(
            run_id="run_1",
            task_key=silent.task_key,
            attempt_id=silent.attempt_id,
            exec_id=silent.exec_id,
        )
    )
    once = RetryRules(max_attempts=1)
    story.plan({"x": (), "y": ("x",), "z": ("y",), "w": ()}, "run_2", retry=once)
    story.execute("x", TaskOutcome.FAILED, "run_2")
    story.execute("w", run_id="run_2")
    story.plan({"p": (), "q": ("p",)}, "run_3")
    story.start("p", "run_3")
    story.tell(RunCancelRequested(run_id="run_3", requested_by="ada", reason="wrong day"))
    story.finish("p", run_id="run_3")
    story.plan({}, "run_4")
    story.request("run_5", run_key="key-run_1", request_fingerprint="other")
    story.commit(epoch=2)
    later = story.now + story.state.ts.resolution
    story.tell(TimerRequested(timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=later))
    return story


def automation() -> Story:
    """Schedules, sensors, backfills, assets, checks and quarantine."""
    story = Story()
    assets = (
        AssetDefinition(asset_key="ns/raw", code_version="1"),
        AssetDefinition(asset_key="ns/mart", upstream=("ns/raw",), tags={"tier": "gold"}),
    )
    story.tell(DefinitionsDeployed(deployment_id="d1", assets=assets))
    story.tell(DynamicPartitionsChanged(set_name="regions", added=("eu", "us")))
    story.tell(DynamicPartitionsChanged(set_name="regions", removed=("us",)))
    _schedule(story)
    _sensors(story)
    _backfill(story)
    story.plan({"held": ()}, "run_q")
    story.start("held", "run_q")
    held = story.task("held", "run_q")
    output = CommittedOutput(
        materialization_id="mat-1", uri="mem", gate=Gate.QUARANTINED, row_count=3
    )
    check = CheckEvaluated(
        run_id="run_q",
        task_key=held.task_key,
        attempt_id=held.attempt_id,
        exec_id=held.exec_id,
        asset_key="ns/held",
        check_name="not_null",
        passed=False,
        blocking=True,
    )
    story.tell(story.finished("held", run_id="run_q", output=output), check)
    story.tell(QuarantineDecided(materialization_id="mat-1", approved=True, decided_by="ada"))
    story.tell(AssetObserved(asset_key="ns/outside", data_version="v9"))
    story.tell(AssetWiped(asset_key="ns/outside"))
    return story


def _schedule(story: Story) -> None:
    story.tell(ScheduleUpserted(schedule_id="daily", cron_expressions=("0 6 * * *",)))
    story.wait(days=1, hours=7)
    due = story.now.replace(hour=6)
    source = ScheduleSource(schedule_id="daily", tick_id="daily:1")
    story.tell(
        ScheduleTicked(
            schedule_id="daily",
            tick_id="daily:1",
            scheduled_for=due,
            definition_version=1,
            status=TickStatus.TRIGGERED,
            run_key="sched:daily:1",
            request_fingerprint="f",
        ),
        RunRequested(
            run_id="run_s", run_key="sched:daily:1", request_fingerprint="f", source=source
        ),
    )
    story.tell(SchedulePaused(schedule_id="daily"))
    story.wait(days=2)
    story.tell(ScheduleResumed(schedule_id="daily"))
    first = story.now.replace(hour=6)
    story.wait(days=3)
    story.tell(
        TicksSkipped(
            schedule_id="daily",
            first=first,
            last=story.now.replace(hour=6),
            count=3,
            reason="too many",
        )
    )


def _sensors(story: Story) -> None:
    story.tell(SensorUpserted(sensor_id="poll"))
    story.tell(SensorUpserted(sensor_id="push", mode=SensorMode.PUSH))
    for version, cursor in ((0, "c1"), (0, "c2"), (1, "c3")):
        story.tell(
            SensorEvaluated(
                sensor_id="poll",
                eval_id=f"eval-{cursor}",
                trigger=PollTrigger(poll_epoch=1),
                expected_state_version=version,
                cursor_after=cursor,
                status=SensorEvalStatus.TRIGGERED,
                run_keys=(f"k-{cursor}",),
            ),
            RunRequested(
                run_id=f"run_{cursor}",
                run_key=f"k-{cursor}",
                request_fingerprint="f",
                source=SensorSource(sensor_id="poll", eval_id=f"eval-{cursor}"),
            ),
        )
    for _ in range(2):
        story.tell(
            SensorEvaluated(
                sensor_id="push",
                eval_id="eval-m",
                trigger=PushTrigger(message_id="m1"),
                status=SensorEvalStatus.NO_NEW_DATA,
            )
        )
    story.tell(SensorCursorReset(sensor_id="poll", cursor="c0"))


def _backfill(story: Story) -> None:
    keys = ("p=s:YQ", "p=s:Yg", "p=s:Yw")
    story.tell(
        BackfillCreated(
            backfill_id="bf_1",
            client_request_id="r1",
            request_fingerprint="f",
            asset_selection=("ns/part",),
            selector=ExplicitSelector(count=3),
            partition_keys=keys,
            total_partitions=3,
            chunk_size=2,
        )
    )
    for index, chunk in enumerate((keys[:2], keys[2:])):
        run_id = f"run_bf_{index}"
        blank = specs({f"t{n}": () for n in range(len(chunk))})
        tasks = tuple(
            msgspec.structs.replace(
                spec,
                task_key=f"ns/part[{key}]:materialize",
                asset_key="ns/part",
                partition=key,
            )
            for key, spec in zip(chunk, blank, strict=True)
        )
        story.tell(
            BackfillChunkPlanned(
                backfill_id="bf_1",
                chunk_index=index,
                expected_state_version=story.state.backfills.rows["bf_1"].state_version,
                partition_keys=chunk,
                run_key=f"bf:{index}",
                request_fingerprint="f",
            ),
            RunRequested(
                run_id=run_id,
                run_key=f"bf:{index}",
                request_fingerprint="f",
                source=BackfillSource(backfill_id="bf_1", chunk_index=index),
            ),
            PlanCreated(run_id=run_id, fingerprint="p", tasks=tasks),
        )
        if index == 0:
            story.tell(BackfillStateChanged(backfill_id="bf_1", to_state=BackfillState.PAUSED))
            story.tell(BackfillStateChanged(backfill_id="bf_1", to_state=BackfillState.RUNNING))
    story.tell(RunCancelRequested(run_id="run_bf_1"))


def endings() -> Story:
    """Everything that ends because of a deadline, a removal, or because nobody came."""
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=1))
    story.plan({"slow": ()}, "run_1", timeout_ms=60_000)
    story.plan({"later": ()}, "run_2")
    story.request("run_3")
    story.request("run_4")
    story.tell(PlanFailed(run_id="run_3", error="no such asset"))
    story.start("slow", "run_1")
    row = story.task("slow", "run_1")
    held: dict[str, Any] = {
        "run_id": "run_1",
        "task_key": row.task_key,
        "attempt_id": row.attempt_id,
        "exec_id": row.exec_id,
    }
    story.wait(minutes=2)
    story.tell(ExecutionTimedOut(**held))
    story.tell(RunCancelRequested(run_id="run_1"))
    story.tell(RunAdmitted(run_id="run_2"))
    story.start("later", "run_2")
    later = story.task("later", "run_2")
    story.wait(hours=25)
    story.tell(PlanDeadlineExceeded(run_id="run_4"))
    story.tell(RunDeadlineExceeded(run_id="run_2"))
    story.wait(minutes=1)
    story.tell(
        CancelGraceExpired(
            run_id="run_2",
            task_key=later.task_key,
            attempt_id=later.attempt_id,
            exec_id=later.exec_id,
        )
    )
    story.finish("later", run_id="run_2")
    fire_at = story.now
    story.tell(TimerRequested(timer_id="t", timer_type=TimerType.CRON, fire_at=fire_at))
    story.tell(TimerEnqueued(timer_id="t"))
    story.tell(TimerCancelled(timer_id="t"))
    story.tell(ScheduleUpserted(schedule_id="gone", cron_expressions=("@daily",)))
    story.tell(ScheduleRemoved(schedule_id="gone"))
    story.tell(SensorUpserted(sensor_id="gone"))
    story.tell(SensorPaused(sensor_id="gone"))
    story.tell(SensorResumed(sensor_id="gone"))
    story.tell(SensorRemoved(sensor_id="gone"))
    early = story.batch(RunCancelRequested(run_id="run_nobody"), parkable=True)
    story.commit(early)
    story.wait(hours=25)
    story.tell(ParkedBatchExpired(batch_id=early.id))
    return story


def several_outputs() -> Story:
    """Tasks that make several assets, that observe, and assets that others report."""
    story = Story()
    many = {"also_makes": ("ns/b", "ns/c"), "partition": "day:d:2024-01-01"}
    story.plan({"a": ()}, "run_1", **many)
    story.start("a", "run_1")
    made = (
        CommittedOutput(materialization_id="m1", uri="mem"),
        CommittedOutput(materialization_id="m2", asset_key="ns/c", gate=Gate.QUARANTINED),
    )
    story.finish("a", run_id="run_1", outputs=made)
    story.plan({"a": ()}, "run_2", retry=RetryRules(max_attempts=1), **many)
    story.execute("a", TaskOutcome.FAILED, "run_2")
    story.plan({"seen": ()}, "run_3", operation=TaskOperation.OBSERVE)
    story.start("seen", "run_3")
    story.finish(
        "seen", run_id="run_3", output=CommittedOutput(materialization_id="", data_version="v1")
    )
    story.tell(AssetReported(asset_key="ns/other", materialization_id="r1", metadata="{}"))
    return story


def retention() -> Story:
    """Assets that keep some of their data, and outputs that expire or must not."""
    story = Story()
    assets = (
        AssetDefinition(asset_key="ns/a", retention_versions=2, retention_age_ms=86_400_000),
        AssetDefinition(asset_key="ns/b", retention_versions=1),
    )
    story.tell(DefinitionsDeployed(deployment_id="d1", assets=assets))
    for number in range(4):
        story.plan({"a": ()}, f"run_{number}", partition="day=d:2026-01-01")
        story.start("a", f"run_{number}", f"exec-{number}")
        gate = Gate.QUARANTINED if number == 1 else Gate.PROMOTED
        output = CommittedOutput(materialization_id=f"m{number}", uri=f"mem/{number}/", gate=gate)
        story.finish("a", run_id=f"run_{number}", output=output)
        story.wait(days=1)
    story.tell(OutputsExpired(materialization_ids=("m0", "m3")))
    story.tell(OutputsExpired(materialization_ids=("m0", "m1")))
    story.tell(OutputsExpired(materialization_ids=("m0",)))
    story.tell(QuarantineDecided(materialization_id="m1", approved=False, decided_by="ada"))
    story.wait(days=1)
    story.tell(OutputsExpired(materialization_ids=("m0", "m1")))
    story.tell(DefinitionsDeployed(deployment_id="d2", assets=assets[1:]))
    return story


def conditions() -> Story:
    """Evaluations of conditions, one that came too late, and assets that grow stale."""
    story = Story()
    policy = '{"fail_ms":7200000,"kind":"time_window","warn_ms":3600000}'
    assets = (
        AssetDefinition(asset_key="ns/a", freshness_policy=policy),
        AssetDefinition(asset_key="ns/b", upstream=("ns/a",), automation_condition="eager"),
    )
    story.tell(DefinitionsDeployed(deployment_id="d1", assets=assets))
    for eval_id, tick in (("e1", 1), ("e2", 2), ("e3", 2), ("e2", 2)):
        source = AutomationSource(evaluation_id=eval_id)
        asked = RunRequested(
            run_id=f"run_{eval_id}", run_key=eval_id, request_fingerprint="f", source=source
        )
        story.tell(
            AutomationTicked(
                sensor_id="default",
                tick=tick,
                eval_id=eval_id,
                applied_seq=story.state.seq,
                ticked_at=story.now,
                requested_count=tick - 1,
                run_keys=(eval_id,) if tick > 1 else (),
            ),
            AutomationEvaluated(
                sensor_id="default",
                tick=tick,
                asset_key="ns/b",
                cursor=f'{{"requested":"{tick - 1}"}}',
                requested="0" if tick > 1 else "",
                requested_count=tick - 1,
                tree='{"label":"eager","kind":"and"}',
            ),
            *((asked,) if tick > 1 else ()),
        )
        story.wait(seconds=30)
    story.plan({"a": ()}, "run_a")
    story.execute("a", run_id="run_a")
    for version, state in enumerate(("PASS", "WARN", "FAIL", "WARN")):
        story.wait(hours=1)
        story.tell(
            FreshnessChanged(
                asset_key="ns/a",
                state=FreshnessState(state),
                expected_version=min(version, 2),
                materialization_seq=story.state.assets.rows["ns/a"].last_materialization_seq,
                changed_at=story.now,
            )
        )
    return story


def several_partitions() -> Story:
    """Tasks that make several partitions, with one output for all, one for each, and none."""
    story = Story()
    days = tuple(f"day=d:2026-01-0{day}" for day in (1, 2, 3))
    many = {"partition": days[0], "also_partitions": days[1:]}
    story.plan({"a": ()}, "run_1", **many)
    story.start("a", "run_1")
    story.finish("a", run_id="run_1", output=CommittedOutput(materialization_id="m1", uri="mem"))
    story.plan({"a": ()}, "run_2", also_makes=("ns/b",), **many)
    story.start("a", "run_2")
    made = (
        CommittedOutput(materialization_id="m2", partition_key=days[1], gate=Gate.QUARANTINED),
        CommittedOutput(materialization_id="m3", partition_key=days[2]),
        CommittedOutput(materialization_id="m4", asset_key="ns/b"),
    )
    story.finish("a", run_id="run_2", outputs=made)
    story.plan({"a": ()}, "run_3", retry=RetryRules(max_attempts=1), **many)
    story.execute("a", TaskOutcome.FAILED, "run_3")
    return story


def messages() -> Story:
    """Messages of a push sensor: repeated, answered, given up; and a conflict of run keys."""
    story = Story()
    story.tell(SensorUpserted(sensor_id="Orders_placed", mode=SensorMode.PUSH))
    story.tell(SensorUpserted(sensor_id="polls"))
    name = "Orders_placed"
    story.tell(
        SensorMessageReceived(sensor_id=name, message_id="m1", payload='{"n":1}'),
        SensorMessageReceived(sensor_id=name, message_id="m2", payload_digest="ab" * 32),
        SensorMessageReceived(sensor_id=name, message_id="m1"),
    )
    story.tell(SensorMessageReceived(sensor_id="polls", message_id="m1"))
    source = SensorSource(sensor_id=name, eval_id="e1")
    run = RunRequested(run_id="run_1", run_key="k", request_fingerprint="fp", source=source)
    answered = SensorEvaluated(
        sensor_id=name,
        eval_id="e1",
        trigger=PushTrigger(message_id="m1"),
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("k",),
    )
    story.tell(answered, run)
    story.tell(SensorMessageReceived(sensor_id=name, message_id="m1"))
    for attempt in range(5):
        story.wait(minutes=1)
        failed = replace(
            answered,
            eval_id=f"f{attempt}",
            trigger=PushTrigger(message_id="m2"),
            status=SensorEvalStatus.FAILED,
            message="down",
            run_keys=(),
        )
        story.tell(failed)
    story.tell(SensorMessageReceived(sensor_id=name, message_id="m2"))
    other = replace(answered, eval_id="e2", trigger=PushTrigger(message_id="m3"))
    story.tell(other, replace(run, request_fingerprint="another"))
    return story


def origins() -> Story:
    """Batches that say who sent them and what led to them, several in an entry, one too early."""
    story = Story()
    ada, name = "user:ada@laptop", "Orders_placed"
    story.tell(SensorUpserted(sensor_id=name, mode=SensorMode.PUSH), actor=ada)
    story.tell(
        SensorMessageReceived(sensor_id=name, message_id="m1", payload='{"n":1}'),
        actor=ada,
        request_id="send-1",
        correlation="order-7",
    )
    run = RunRequested(
        run_id="run_1",
        run_key="k1",
        request_fingerprint="fp",
        source=SensorSource(sensor_id=name, eval_id="e1"),
        asset_selection=("ns/a",),
        request_text=f"sensor {name}",
    )
    answered = SensorEvaluated(
        sensor_id=name,
        eval_id="e1",
        trigger=PushTrigger(message_id="m1"),
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("k1",),
    )
    by_hand = ManualSource(user_id=ada, request_id="mine")
    typed = replace(run, run_id="run_2", run_key="k2", source=by_hand, request_text="+orders")
    story.commit(
        story.batch(typed, actor=ada, request_id="run-2"),
        story.batch(answered, run, actor=f"sensor:{name}", cause="2.0", correlation="order-7"),
    )
    story.tell(typed, actor=ada, request_id="run-2")
    again = replace(
        typed, run_id="run_3", run_key="k3", source=RerunSource(run_id="run_1", user_id=ada)
    )
    early = story.batch(
        RunCancelRequested(run_id="run_4", requested_by=ada),
        parkable=True,
        actor="inbox:cron",
        cause="3.2",
        correlation="order-7",
    )
    story.commit(story.batch(again, actor=ada, cause="3.2", correlation="order-7"), early)
    story.plan({"a": ()}, "run_4")
    story.plan({"b": ()}, "run_5")
    story.start("b", "run_5")
    story.tell(story.finished("b", run_id="run_5"), actor="worker:etl")
    return story


def force_cancel() -> Story:
    """Runs that are ended by force: at once, while they are being stopped, and reported late."""
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=4, max_daily_runs=9))
    story.tell(QuotaSet(lifted=("max_daily_runs",)))
    story.plan({"a": (), "b": ("a",)}, "run_1", partition="day:d:2024-01-01")
    story.start("a", "run_1")
    late = story.finished(
        "a", run_id="run_1", output=CommittedOutput(materialization_id="m", uri="mem")
    )
    story.tell(RunCancelRequested(run_id="run_1", requested_by="ada", force=True))
    story.tell(late)
    story.plan({"c": ()}, "run_2")
    story.start("c", "run_2")
    story.tell(RunCancelRequested(run_id="run_2", requested_by="ada"))
    story.wait(seconds=5)
    story.tell(RunCancelRequested(run_id="run_2", requested_by="bob", force=True))
    return story


def thresholds() -> Story:
    """A backfill in a lane of its own that stops because too many percent of it failed."""
    story = Story()
    days = tuple(f"day:d:2024-01-0{day}" for day in range(1, 5))
    story.tell(
        BackfillCreated(
            backfill_id="bf",
            client_request_id="req",
            request_fingerprint="fp",
            asset_selection=("ns/a",),
            selector=ExplicitSelector(count=4),
            partition_keys=days,
            total_partitions=4,
            chunk_size=1,
            max_failed_percent=25,
        )
    )
    for index in range(2):
        run = f"run_{index}"
        source = BackfillSource(backfill_id="bf", chunk_index=index)
        tasks = specs({"a": ()}, partition=days[index], retry=RetryRules(max_attempts=1))
        story.tell(
            BackfillChunkPlanned(
                backfill_id="bf",
                chunk_index=index,
                expected_state_version=1,
                partition_keys=(days[index],),
                run_key=run,
                request_fingerprint="fp",
            ),
            RunRequested(
                run_id=run,
                run_key=run,
                request_fingerprint="fp",
                source=source,
                lane="backfills",
            ),
            PlanCreated(run_id=run, fingerprint="plan", tasks=tasks),
        )
        row = next(iter(story.state.index.run_tasks[run]))
        name = story.state.tasks.rows[run, row]
        story.tell(DispatchRequested(run_id=run, task_key=name.task_key, attempt=1))
        held = story.state.tasks.rows[run, row]
        claim: dict[str, Any] = {
            "run_id": run,
            "task_key": row,
            "attempt_id": held.attempt_id,
            "exec_id": "x",
        }
        story.tell(TaskStarted(**claim))
        story.tell(TaskFinished(**claim, outcome=TaskOutcome.FAILED))
    return story


def force_cancel_backfill() -> Story:
    """A backfill that is cancelled by force, and one that was being cancelled already."""
    story = Story()
    for number, forced in enumerate((True, False)):
        name, run, day = f"bf_{number}", f"run_{number}", f"day:d:2024-01-0{number + 1}"
        story.tell(
            BackfillCreated(
                backfill_id=name,
                client_request_id=name,
                request_fingerprint="fp",
                asset_selection=("ns/a",),
                selector=ExplicitSelector(count=1),
                partition_keys=(day,),
                total_partitions=1,
            )
        )
        story.tell(
            BackfillChunkPlanned(
                backfill_id=name,
                chunk_index=0,
                expected_state_version=1,
                partition_keys=(day,),
                run_key=run,
                request_fingerprint="fp",
            ),
            RunRequested(
                run_id=run,
                run_key=run,
                request_fingerprint="fp",
                source=BackfillSource(backfill_id=name, chunk_index=0),
            ),
            PlanCreated(run_id=run, fingerprint="plan", tasks=specs({"a": ()}, partition=day)),
        )
        story.start("a", run)
        stop = BackfillStateChanged(backfill_id=name, to_state=BackfillState.CANCELLING)
        story.tell(replace(stop, changed_by="ada", force=forced))
        story.wait(seconds=5)
        if not forced:
            story.tell(replace(stop, changed_by="bob", force=True))
    return story


def refusals() -> Story:
    """Requests from the inbox that are refused, wait, wait in vain, or cannot be read."""
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=7), request_id="taken")
    unreadable = Verdict(status=Status.REJECTED, code="undecodable", reason="undecodable: no JSON")
    stored = Verdict(status=Status.REJECTED, code="too_large", reason="too_large: 70000 bytes")
    for name, data, verdict in (
        ("01", b"\xff\x00", unreadable),
        ("02", b"no batch", unreadable),
        ("03", b"x" * 70_000, stored),
    ):
        source = inbox_source(name)
        left = Batch(id=source, request_id=source, actor=source, parkable=True)
        story.commit(replace(left, verdict=verdict, original=original_of(source, data)))
    cancel = RunCancelRequested(run_id="run_1")
    _leave(story, "04", QuotaSet(max_concurrent_tasks=5), sent_at=story.now - timedelta(days=31))
    _leave(story, "05", QuotaSet(max_concurrent_tasks=5), request_id="taken")
    _leave(story, "06", QuotaSet(max_concurrent_tasks=-1))
    _leave(story, "07", cancel, RunCancelRequested(run_id="run_2"))
    _leave(story, "08", RunCancelRequested(run_id="run_9"))
    story.plan({"a": ()}, "run_1")
    story.plan({}, "run_2")
    story.tell(SensorUpserted(sensor_id="poll", mode=SensorMode.POLL))
    for number in (1, 2):
        story.tell(
            SensorEvaluated(
                sensor_id="poll",
                eval_id=f"e{number}",
                trigger=PollTrigger(poll_epoch=number),
                expected_state_version=0,
                status=SensorEvalStatus.TRIGGERED,
                cursor_after=str(number),
            )
        )
    story.wait(days=2)
    story.tell(ParkedBatchExpired(batch_id="batch-08"))
    return story


def _leave(story: Story, name: str, *events: Event, **fields: Any) -> None:
    """Take a batch from the inbox."""
    source = inbox_source(name)
    values: dict[str, Any] = {"request_id": source, "actor": source, "parkable": True, **fields}
    batch = Batch(id=f"batch-{name}", events=events, **values)
    story.commit(replace(batch, original=original_of(source, encode_batch(batch))))


STORIES: dict[str, Callable[[], Story]] = {
    "execution": execution,
    "automation": automation,
    "endings": endings,
    "several_outputs": several_outputs,
    "retention": retention,
    "conditions": conditions,
    "several_partitions": several_partitions,
    "messages": messages,
    "origins": origins,
    "force_cancel": force_cancel,
    "thresholds": thresholds,
    "force_cancel_backfill": force_cancel_backfill,
    "refusals": refusals,
}


def tables(state: State) -> dict[str, list[Any]]:
    """Every row of every table as plain JSON values, in the order of the keys."""
    return {
        name: [msgspec.to_builtins(rows[key]) for key in sorted(rows, key=str)]
        for name, rows in dump(state).items()
        if rows
    }


def fold(lines: list[bytes]) -> State:
    """What a recorded ledger folds to today."""
    state = State("acme", "prod")
    for line in lines:
        entry, digest = decode_entry(line, what="a recorded entry")
        apply_entry(state, entry, digest)
    return state


def main() -> None:
    name = sys.argv[1]
    ledger = FOLDER / f"{name}.ndjson"
    if ledger.exists():
        sys.exit(f"{ledger} is recorded already, and what is recorded stays")
    lines = [data for _, data, _ in STORIES[name]().entries]
    ledger.write_bytes(b"\n".join(lines) + b"\n")
    expected = msgspec.json.format(msgspec.json.encode(tables(fold(lines))), indent=1)
    (FOLDER / f"{name}.tables.json").write_bytes(expected + b"\n")


if __name__ == "__main__":
    main()
