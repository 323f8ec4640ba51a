"""Record stores as test vectors: whole workspaces, and the rows that every reader must find.

    python tests/golden/record_stores.py [NAME …]   writes stores anew, all if none is named

For each story there are two files in `stores/`:

    NAME.zip     the objects of a workspace under their keys, `acme/prod/…`
    NAME.json    `rows`: the rows of every table, by table, in the order of their keys
                 `applied_seq`, `entries`: what is published, and how many entries there are

Other implementations read the archive and compare; `independent_reader.py` does so here. The rows
are those of the newest manifest and, since nothing is left unpublished, of the whole ledger.

Once a version of Servo was released, a store that it wrote is never recorded anew: later code has
to read it. When the format grows, record another one.
"""

import json
import sys
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from servo.core.events.assets import (
    AssetDefinition,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
)
from servo.core.events.backfills import BackfillState, BackfillStateChanged
from servo.core.events.codec import encode_batch, encode_entry
from servo.core.events.dispatch import LeaseExpired
from servo.core.events.envelope import Entry
from servo.core.events.runs import (
    PlanCreated,
    PlanSegmentExpanded,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorUpserted,
)
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskOutcome
from servo.core.events.timers import TimerFired
from servo.core.fold.apply import apply_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.fold.timers import firing_of
from servo.core.manifest import encode, next_claim
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.ledger.archive import ArchiveDue, delete_archived
from servo.projection.upkeep.compare import dump
from servo.projection.upkeep.rebuild import rebuild
from servo.testing.archives import archive_range
from servo.testing.backfills import backfill_chunk, backfill_created
from servo.testing.builders import specs
from servo.testing.workspaces import StoredStory

FOLDER = Path(__file__).parent / "stores"
HOUR = timedelta(hours=1)
EARLIEST = (1980, 1, 1, 0, 0, 0)


def begun() -> StoredStory:
    """A workspace whose first leader has taken over: entry 1 is its fence."""
    story = StoredStory()
    _ = story.commit()
    return story


def taken_over(story: StoredStory) -> None:
    """Another leader takes over: a claim, and its fence."""
    claim = next_claim(story.manifest, owner="owner-2", nonce="second", ts=story.now)
    _, story.manifest = encode(claim)
    assert story.manifests.create(story.manifest) is None
    _ = story.commit(epoch=2)


def left_behind(story: StoredStory) -> None:
    """The former leader had an append under way, which landed after the fence: it is dead."""
    batch = story.batch(RunCancelRequested(run_id="run_1"))
    dead = Entry(
        seq=story.state.seq + 1,
        epoch=1,
        owner="owner-1",
        nonce="late",
        ts=story.now,
        prev_hash=story.state.last_hash,
        fold_version=FOLD_VERSION,
        batches=(batch,),
    )
    data, digest = encode_entry(dead, [encode_batch(batch)])
    assert not apply_entry(story.state, dead, digest)
    story.entries.append((dead, data, digest))


def tiers() -> StoredStory:
    """Runs in both tiers, merged files and unmerged ones, dropped rows, entries in the archive."""
    story = begun()
    for number in range(3):
        run = f"run_{number}"
        _ = story.plan({"a": [], "b": ["a"]}, run_id=run)
        _ = story.execute("a", run_id=run)
        _ = story.execute("b", TaskOutcome.SKIPPED if number == 1 else TaskOutcome.SUCCEEDED, run)
        story.wait(minutes=50)
        _ = story.publish(close_after=HOUR)
    _ = story.merge()
    _ = story.plan({"a": []}, run_id="active")
    _ = story.start("a", run_id="active")
    _ = story.publish(close_after=HOUR)
    archived = 9
    _ = archive_range(story.store, story.paths, 1, archived)
    due = ArchiveDue(upto=archived - 2, older_than=story.now)
    assert len(delete_archived(story.store, story.paths, due, limit=100)) == archived - 2
    return story


def cancelled() -> StoredStory:
    """Runs that are cancelled, by force too, that take too long, and reports that come too late."""
    story = begun()
    _ = story.plan({"a": [], "b": ["a"]}, run_id="stopped")
    _ = story.start("a", run_id="stopped")
    _ = story.tell(RunCancelRequested(run_id="stopped", requested_by="ada", reason="wrong day"))
    _ = story.finish("a", run_id="stopped")
    _ = story.plan({"a": [], "b": ["a"]}, run_id="forced")
    _ = story.start("a", run_id="forced")
    late = story.finished("a", run_id="forced")
    _ = story.tell(RunCancelRequested(run_id="forced", requested_by="ada", force=True))
    _ = story.tell(late)
    _ = story.plan({"a": []}, run_id="overdue")
    story.wait(hours=25)
    _ = story.tell(RunDeadlineExceeded(run_id="overdue"))
    created = backfill_created("day=d:2026-01-01", "day=d:2026-01-02", chunk_size=1)
    _ = story.tell(created)
    chunk, request = backfill_chunk(created, run_id="run_bf")
    tasks = specs({"a": []}, partition="day=d:2026-01-01")
    _ = story.tell(chunk, request, PlanCreated(run_id="run_bf", fingerprint="p", tasks=tasks))
    _ = story.start("a", run_id="run_bf")
    stop = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.CANCELLING)
    _ = story.tell(stop)
    _ = story.finish("a", TaskOutcome.CANCELLED, "run_bf")
    _ = story.publish()
    return story


def attempts() -> StoredStory:
    """Attempts that fail and are retried, are given back, or lost; a new leader; a stored plan."""
    story = begun()
    rules = RetryRules(max_attempts=2, no_retry_on=("KeyError",))
    _ = story.plan({"a": [], "b": ["a"], "c": []}, run_id="run_1", retry=rules)
    _ = story.start("a")
    why = TaskError(code="UserCodeException", types=("builtins.ValueError", "builtins.Exception"))
    _ = story.finish("a", TaskOutcome.FAILED, error=why)
    story.wait(seconds=31)
    (timer,) = story.state.timers.rows
    _ = story.tell(_fired(story, timer))
    _ = story.start("a")
    _ = story.finish("a", TaskOutcome.INTERRUPTED, began=False)
    _ = story.execute("a")
    _ = story.start("b")
    row = story.task("b")
    taken_over(story)
    left_behind(story)
    story.wait(minutes=6)
    held: dict[str, Any] = {"run_id": "run_1", "task_key": row.task_key}
    _ = story.tell(LeaseExpired(**held, attempt_id=row.attempt_id, exec_id=row.exec_id or ""))
    _ = story.start("c")
    fatal = TaskError(code="UserCodeException", types=("builtins.KeyError",))
    _ = story.finish("c", TaskOutcome.FAILED, error=fatal)
    plan: tuple[TaskSpec, ...] = specs({"x": [], "y": ["x"]})
    digest = story.plan_by_digest(plan, run_id="large")
    _ = story.tell(PlanSegmentExpanded(run_id="large", index=0, digest=digest))
    _ = story.publish()
    return story


def _fired(story: StoredStory, timer_id: str) -> TimerFired:
    return firing_of(story.state.timers.rows[timer_id])


def inbox() -> StoredStory:
    """Batches that come too early, wait, and are released; batches that become dead letters."""
    story = begun()
    early = story.batch(
        RunCancelRequested(run_id="run_1"), parkable=True, request_id="inbox:1", actor="inbox:cron"
    )
    _ = story.commit(early)
    _ = story.publish()
    _ = story.plan({"a": []}, run_id="run_1")
    waiting = story.batch(
        RunCancelRequested(run_id="never"), parkable=True, request_id="inbox:2", actor="inbox:cron"
    )
    _ = story.commit(waiting)
    refused = story.batch(
        AssetWiped(asset_key="ns/unknown"), parkable=True, request_id="inbox:3", actor="inbox:cron"
    )
    _ = story.commit(refused)
    asked = RunRequested(run_id="run_2", run_key="k2", request_fingerprint="fp")
    _ = story.tell(asked, request_id="mine", actor="user:ada@laptop")
    _ = story.tell(asked, request_id="mine", actor="user:ada@laptop")
    other = RunRequested(run_id="run_3", run_key="k2", request_fingerprint="another")
    _ = story.tell(other, actor="user:ada@laptop")
    _ = story.publish()
    return story


def triggers() -> StoredStory:
    """Schedules, sensors with messages and cursors, and a backfill whose chunks end."""
    story = begun()
    _ = story.tell(ScheduleUpserted(schedule_id="daily", cron_expressions=("0 6 * * *",)))
    story.wait(hours=7)
    due = story.now.replace(hour=6)
    _ = story.tell(
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
            run_id="run_s",
            run_key="sched:daily:1",
            request_fingerprint="f",
            source=ScheduleSource(schedule_id="daily", tick_id="daily:1"),
        ),
    )
    story.wait(days=3)
    span: dict[str, Any] = {"first": due + timedelta(days=1), "last": due + timedelta(days=2)}
    _ = story.tell(TicksSkipped(schedule_id="daily", count=2, reason="too many", **span))
    _ = story.tell(SchedulePaused(schedule_id="daily"))
    _sensors(story)
    created = backfill_created("day=d:2026-01-01", "day=d:2026-01-02", chunk_size=1)
    _ = story.tell(created)
    for index, day in enumerate(("day=d:2026-01-01", "day=d:2026-01-02")):
        run = f"run_bf_{index}"
        chunk, request = backfill_chunk(created, index, run_id=run)
        once = RetryRules(max_attempts=1)
        tasks = specs({"a": []}, partition=day, retry=once)
        _ = story.tell(chunk, request, PlanCreated(run_id=run, fingerprint="p", tasks=tasks))
        outcome = TaskOutcome.FAILED if index else TaskOutcome.SUCCEEDED
        _ = story.execute("a", outcome, run)
    _ = story.publish()
    return story


def _sensors(story: StoredStory) -> None:
    _ = story.tell(SensorUpserted(sensor_id="poll"))
    _ = story.tell(SensorUpserted(sensor_id="push", mode=SensorMode.PUSH))
    for version, cursor in ((0, "c1"), (0, "stale"), (1, "c2")):
        _ = story.tell(
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
    for name in ("m1", "m2"):
        _ = story.tell(
            SensorMessageReceived(sensor_id="push", message_id=name, payload='{"n":"é"}')
        )
    _ = story.tell(
        SensorEvaluated(
            sensor_id="push",
            eval_id="eval-m1",
            trigger=PushTrigger(message_id="m1"),
            status=SensorEvalStatus.NO_NEW_DATA,
        )
    )


def assets() -> StoredStory:
    """Definitions, dynamic partitions, outputs that are promoted and held back, a whole wipe."""
    story = begun()
    defined = (
        AssetDefinition(asset_key="ns/a", code_version="1", tags={"tier": "gold"}),
        AssetDefinition(asset_key="ns/b", upstream=("ns/a",)),
    )
    _ = story.tell(DefinitionsDeployed(deployment_id="d1", assets=defined))
    _ = story.tell(DynamicPartitionsChanged(set_name="regions", added=("eu", "us", "ü")))
    _ = story.tell(DynamicPartitionsChanged(set_name="regions", removed=("us",)))
    for number, day in enumerate(("day=d:2026-01-01", "day=d:2026-01-02")):
        run = f"run_{number}"
        _ = story.plan({"a": []}, run_id=run, partition=day)
        _ = story.execute("a", run_id=run)
    _ = story.publish()
    _ = story.tell(AssetWiped(asset_key="ns/a"))
    _ = story.plan({"a": []}, run_id="after", partition="day=d:2026-01-02")
    _ = story.execute("a", run_id="after")
    _ = story.plan({"b": []}, run_id="held")
    _ = story.start("b", run_id="held")
    row = story.task("b", "held")
    check = CheckEvaluated(
        run_id="held",
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id=row.exec_id or "",
        asset_key="ns/b",
        check_name="not_null",
        passed=False,
        blocking=True,
    )
    output = CommittedOutput(
        materialization_id="mat-1", uri="mem", gate=Gate.QUARANTINED, row_count=3
    )
    _ = story.tell(story.finished("b", run_id="held", output=output), check)
    _ = story.publish()
    return story


STORIES: dict[str, Callable[[], StoredStory]] = {
    "tiers": tiers,
    "cancelled": cancelled,
    "attempts": attempts,
    "inbox": inbox,
    "triggers": triggers,
    "assets": assets,
}


def expected(story: StoredStory) -> dict[str, Any]:
    """What every reader must find."""
    rebuilt = rebuild(story.store, story.paths, from_genesis=True).state
    return {
        "entries": rebuilt.seq,
        "applied_seq": story.manifest.applied_seq,
        "rows": {name: rows for name, rows in dump(rebuilt).items() if rows},
    }


def record(name: str) -> None:
    story = STORIES[name]()
    assert story.manifest.applied_seq == story.state.seq, "everything is published"
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for key in story.objects():
            info = zipfile.ZipInfo(key, EARLIEST)
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, story.store.get(key).data)
    found = json.loads(msgspec.json.encode(expected(story)))
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
    (FOLDER / f"{name}.json").write_text(text + "\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or STORIES:
        record(name)


if __name__ == "__main__":
    main()
