"""`servo admin`: look at what is stored, check it, make it again, clear it up."""

from itertools import islice

import click

from servo.cli import admin_output
from servo.cli.output import EXIT_CODES, emit_json, progress
from servo.cli.workspace import Target, of_a_workspace
from servo.config import Settings
from servo.core.manifest import Manifest
from servo.core.state.state import State
from servo.errors import Corrupt, Invalid, NotFound
from servo.ports.object_store import ObjectMeta
from servo.projection.gc import collect
from servo.projection.inspection import inspect
from servo.projection.manifest_store import ManifestStore
from servo.projection.orphans import delete_plans, orphaned_plans
from servo.projection.reader import Snapshot
from servo.projection.replay import NOTHING, Progress, Replay
from servo.projection.row_diff import row_diffs
from servo.projection.store_time import StoreTime
from servo.projection.time_travel import Overlaid, Past
from servo.projection.verify import Part, verify

FOUND_PROBLEMS = EXIT_CODES[Corrupt]
MOST_DIFFS = 100

as_json = click.option("--json", "json_", is_flag=True, help="Print one JSON value.")


@click.group()
def admin() -> None:
    """Look at what is stored, check it, make it again, clear it up."""


@admin.command("inspect")
@as_json
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


@admin.command("verify")
@as_json
@of_a_workspace
def verify_(*, target: Target, json_: bool) -> int:
    """Check every byte that is stored, and the projection against the ledger.

    Reads everything and changes nothing. Exits with 7 if anything is wrong.
    """
    with progress(shown=not json_) as bar:

        def step(part: Part, done: int, total: int) -> None:
            bar(part, done, total)

        report = verify(target.store, target.paths, progress=step)
    if not report.manifests and not report.entries:
        raise _empty(target)
    if json_:
        emit_json(report)
    else:
        admin_output.show_report(report)
    return 0 if report.sound else FOUND_PROBLEMS


@admin.command("rebuild")
@click.option("--check", is_flag=True, help="Change nothing; show what would differ.")
@as_json
@of_a_workspace
def rebuild_(*, target: Target, check: bool, json_: bool) -> int:
    """Make the projection again from the whole ledger.

    With --check nothing is written: the rows that differ are shown, and the exit code is 7 if
    there are any.
    """
    if not check:
        raise Invalid(
            "this version cannot publish a rebuilt projection",
            remedy="run it with --check to see what would change",
        )
    newest = _newest(target)
    with progress(shown=not json_) as bar:
        rebuilt = _rebuilt(
            target, newest, lambda seq: bar("replaying the ledger", seq, newest.applied_seq)
        )
        found = row_diffs(Snapshot(target.store, newest), rebuilt)
        diffs = list(islice(found, MOST_DIFFS + 1))
    if json_:
        emit_json({"applied_seq": newest.applied_seq, "differences": diffs[:MOST_DIFFS]})
    else:
        admin_output.show_diffs(diffs, newest, most=MOST_DIFFS)
    return FOUND_PROBLEMS if diffs else 0


@admin.command("gc")
@click.option("--dry-run", is_flag=True, help="Delete nothing; say what would be.")
@click.option("--plans", is_flag=True, help="Also plans that no event names; reads the ledger.")
@as_json
@of_a_workspace
def gc_(*, target: Target, dry_run: bool, plans: bool, json_: bool) -> int:
    """Delete what no kept version of the projection needs, and archive old ledger entries.

    A leader does this by itself. Ledger entries are never lost: they move into the archive.
    """
    settings = Settings()
    report = collect(
        target.store,
        target.paths,
        current=_newest(target),
        in_flight=(),
        now=target.clock.now(),
        settings=settings,
        dry_run=dry_run,
    )
    orphans = _collect_plans(target, settings, dry_run=dry_run) if plans else []
    if json_:
        emit_json({"report": report, "plans": [meta.key for meta in orphans], "dry_run": dry_run})
    else:
        admin_output.show_collected(report, orphans, dry_run=dry_run)
    return FOUND_PROBLEMS if report.problems else 0


def _collect_plans(target: Target, settings: Settings, *, dry_run: bool) -> list[ObjectMeta]:
    time = StoreTime(target.store, target.paths, patience=settings.gc_min_age / 4)
    older_than = time.present(target.clock.now()) - settings.gc_min_age
    through = _newest(target).applied_seq
    found = orphaned_plans(target.store, target.paths, older_than=older_than, through=through)
    if not dry_run:
        _ = delete_plans(target.store, found, older_than=older_than)
    return found


def _rebuilt(target: Target, newest: Manifest, progress: Progress) -> Overlaid:
    """What the ledger folds to, from its beginning to where `newest` stands."""
    state = State(target.paths.tenant, target.paths.workspace)
    replay = Replay(target.store, target.paths, progress=progress)
    replay.forward(state, NOTHING, until=newest.applied_seq)
    return Overlaid(target.store, target.paths, Past(state=state, base=NOTHING))


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
