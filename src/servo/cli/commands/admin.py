"""`servo admin`: look at what is stored, check it, make it again, clear it up."""

from collections.abc import Sequence
from hashlib import sha256

import click

from servo.cli import admin_output
from servo.cli.commands.limits import pool, quota
from servo.cli.options import json_option
from servo.cli.output import EXIT_CODES, emit_json, progress
from servo.cli.republish import republish
from servo.cli.workspace import Target, of_a_workspace
from servo.config import Settings
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch
from servo.core.manifest import Manifest
from servo.errors import Conflict, Corrupt, Invalid, NotFound
from servo.ports.object_store import ObjectMeta
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.store_time import StoreTime
from servo.projection.upkeep.gc import collect
from servo.projection.upkeep.inspection import inspect
from servo.projection.upkeep.orphans import delete_plans, orphaned_plans
from servo.projection.upkeep.outputs import collect_outputs, expiry_events
from servo.projection.upkeep.row_diff import Comparison, compare
from servo.projection.upkeep.verify import ProblemPart, verify
from servo.workspace.composition import open_world
from servo.workspace.identity import this_process

FOUND_PROBLEMS = EXIT_CODES[Corrupt]
DECLINED = 1


@click.group()
def admin() -> None:
    """Look at what is stored, check it, make it again, clear it up."""


admin.add_command(pool)
admin.add_command(quota)


@admin.command("inspect")
@json_option
@of_a_workspace
def inspect_(*, target: Target, json_: bool) -> None:
    """Show what is stored for a workspace, without opening it."""
    found = inspect(target.store, target.paths)
    if found.newest is None and not found.last_entry:
        raise _empty(target)
    if json_:
        emit_json(found)
    else:
        admin_output.show_inspection(found, target)


@admin.command("verify", short_help="Check every byte, and the projection against the ledger.")
@json_option
@of_a_workspace
def verify_(*, target: Target, json_: bool) -> int:
    """Check every byte that is stored, and the projection against the ledger.

    Reads everything and changes nothing. Exits with 7 if anything is wrong.
    """
    with progress(shown=not json_) as bar:

        def step(part: ProblemPart, done: int, total: int) -> None:
            bar(part, done, total)

        report = verify(target.store, target.paths, progress=step)
    if not report.manifests and not report.entries:
        raise _empty(target)
    if json_:
        emit_json(report)
    else:
        admin_output.show_report(report)
    return 0 if report.sound else FOUND_PROBLEMS


@admin.command("rebuild", short_help="Make the projection again from the ledger.")
@click.option("--check", is_flag=True, help="Change nothing; show what would differ.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@of_a_workspace
def rebuild_(*, target: Target, check: bool, yes: bool, json_: bool) -> int:
    """Make the projection again from the whole ledger, and publish it.

    Shows first which rows differ from what is published. A leader that runs is replaced: publishing
    takes the lead. With --check nothing is written, and the exit code is 7 if any row differs.
    """
    comparison = _compare(target, shown=not json_)
    if not comparison.v and not comparison.unreadable:
        raise _empty(target)
    if not json_:
        admin_output.show_comparison(comparison)
    if check:
        if json_:
            emit_json(comparison)
        return FOUND_PROBLEMS if comparison.differs else 0
    if not _agreed(comparison, yes=yes, json_=json_):
        click.echo("nothing was published", err=True)
        return DECLINED
    with progress(shown=not json_) as bar:
        total = comparison.applied_seq
        made = republish(
            open_world(target.url),
            target.paths,
            progress=lambda seq: bar("folding the ledger", seq, max(seq, total)),
        )
    if json_:
        emit_json({"v": made.v, "applied_seq": made.applied_seq, "comparison": comparison})
    else:
        admin_output.show_published(made)
    return 0


def _compare(target: Target, *, shown: bool) -> Comparison:
    with progress(shown=shown) as bar:
        return compare(
            target.store,
            target.paths,
            progress=lambda done, total: bar("folding the ledger", done, total),
        )


def _agreed(comparison: Comparison, *, yes: bool, json_: bool) -> bool:
    """Ask before anything is published; never change what a former fold decided for good."""
    if comparison.rewrites_history:
        raise Conflict(
            "this version of the fold would change rows of runs that are over",
            remedy="start a leader instead: it goes on from what is published",
        )
    if json_ and not yes:
        raise Invalid("there is nobody to ask with --json", remedy="say --yes, or --check")
    return yes or click.confirm("Take the lead and publish the rebuilt projection?", err=True)


@admin.command("gc", short_help="Delete what no kept version needs; archive old entries.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; say what would be.")
@click.option("--plans", is_flag=True, help="Also plans that no event names; reads the ledger.")
@json_option
@of_a_workspace
def gc_(*, target: Target, dry_run: bool, plans: bool, json_: bool) -> int:
    """Delete what no kept version of the projection needs, and archive old ledger entries.

    Also the data of assets that their retention no longer keeps, and what killed executions left
    behind. A leader does this by itself. Ledger entries are never lost: they move into the archive.
    """
    settings = Settings()
    current, now = _newest(target), target.clock.now()
    report = collect(
        target.store,
        target.paths,
        current=current,
        in_flight=(),
        now=now,
        settings=settings,
        dry_run=dry_run,
    )
    report += collect_outputs(
        target.store, target.paths, current=current, now=now, settings=settings, dry_run=dry_run
    )
    if not dry_run:
        _announce_expired(target, report.expired)
    orphans = _collect_plans(target, settings, dry_run=dry_run) if plans else []
    if json_:
        emit_json({"report": report, "plans": [meta.key for meta in orphans], "dry_run": dry_run})
    else:
        admin_output.show_collected(report, orphans, dry_run=dry_run)
    return FOUND_PROBLEMS if report.problems else 0


def _announce_expired(target: Target, names: Sequence[str]) -> None:
    """Leave what expires in the inbox, for whoever leads: nothing goes before the ledger knows."""
    for event in expiry_events(names):
        digest = sha256("\n".join(event.materialization_ids).encode()).hexdigest()
        name = f"expired-{digest[:32]}"
        batch = Batch(id=name, events=(event,), actor=this_process())
        _ = target.store.put(target.paths.inbox_item(name), encode_batch(batch))


def _collect_plans(target: Target, settings: Settings, *, dry_run: bool) -> list[ObjectMeta]:
    time = StoreTime(target.store, target.paths, patience=settings.gc_min_age / 4)
    older_than = time.present(target.clock.now()) - settings.gc_min_age
    through = _newest(target).applied_seq
    found = orphaned_plans(target.store, target.paths, older_than=older_than, through=through)
    if not dry_run:
        _ = delete_plans(target.store, found, older_than=older_than)
    return found


def _newest(target: Target) -> Manifest:
    newest = ManifestStore(target.store, target.paths).latest()
    if newest is None:
        raise _empty(target)
    return newest


def _empty(target: Target) -> NotFound:
    return NotFound(
        f"{target.url} holds nothing of tenant {target.paths.tenant}, "
        f"workspace {target.paths.workspace}",
        remedy="check --store, --tenant and --workspace",
    )
