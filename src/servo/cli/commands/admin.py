"""`servo admin`: inspect what is stored, verify it, rebuild the projection, delete garbage."""

from contextlib import ExitStack

import click

from servo.cli.commands.dead_letters import dead_letters
from servo.cli.commands.limits import lane, pool, quota
from servo.cli.options.confirming import DECLINED, confirmed, yes_option
from servo.cli.options.groups import NounGroup
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering import admin_output
from servo.cli.rendering.output import EXIT_CODES, emit_json, progress
from servo.cli.rendering.receipts import QUEUED
from servo.errors import Corrupt, Invalid
from servo.operations.admin import (
    Comparison,
    collect_garbage,
    compare_projection,
    inspect_workspace,
    rebuild_projection,
    verify_workspace,
)
from servo.workspace.workspace import Workspace

FOUND_PROBLEMS = EXIT_CODES[Corrupt]


@click.group(cls=NounGroup)
def admin() -> None:
    """Inspect, verify, rebuild and clean up stored data; set limits."""


admin.add_command(dead_letters)
admin.add_command(lane)
admin.add_command(pool)
admin.add_command(quota)


@admin.command("inspect", short_help="Show what is stored, table by table.")
@json_option
@with_workspace
def inspect_(*, workspace: Workspace, json_: bool) -> None:
    """Show what is stored for a workspace. Works on damaged data too."""
    found = inspect_workspace(workspace)
    if json_:
        emit_json(found)
    else:
        admin_output.show_inspection(found, workspace.address)


@admin.command("verify", short_help="Verify all stored data.")
@click.option("--quick", is_flag=True, help="Leave out outputs and logs.")
@json_option
@with_workspace
def verify_(*, workspace: Workspace, quick: bool, json_: bool) -> int:
    """Check every stored byte, and the projection against the ledger.

    Reads everything and changes nothing: the ledger, the tables, plans, outputs and logs.
    Exits with 7 if it finds a problem.
    """
    with progress(shown=not json_) as bar:
        report = verify_workspace(workspace, quick=quick, progress=bar)
    if json_:
        emit_json(report)
    else:
        admin_output.show_report(report)
    return 0 if report.sound else FOUND_PROBLEMS


@admin.command("rebuild", short_help="Rebuild the projection from the ledger.")
@click.option("--check", is_flag=True, help="Change nothing; show what would differ.")
@yes_option
@json_option
@with_workspace
def rebuild_(*, workspace: Workspace, check: bool, yes: bool, json_: bool) -> int:
    """Rebuild the projection from the whole ledger, and publish it.

    First shows which rows differ from the published ones. Fails while a leader is
    running: stop it first. With --check nothing is written, and the exit code is 7 if any row
    differs.
    """
    if check:
        return _check(workspace, json_=json_)
    if json_ and not yes:
        raise Invalid("--json cannot ask for confirmation", remedy="add --yes, or --check")

    with ExitStack() as bars:
        bar = bars.enter_context(progress(shown=not json_))

        def agree(comparison: Comparison) -> bool:
            nonlocal bar
            bars.close()  # a question stands where a bar would overwrite it
            if not json_:
                admin_output.show_comparison(comparison)
            agreed = confirmed("Publish the rebuilt projection?", yes=yes)
            bar = bars.enter_context(progress(shown=not json_))
            return agreed

        def step(what: str, done: int, total: int) -> None:
            bar(what, done, total)

        made = rebuild_projection(workspace, agree=agree, progress=step)
    if not made.published:
        click.echo("Nothing was published.", err=True)
        return DECLINED
    if json_:
        emit_json(made)
    else:
        admin_output.show_published(made)
    return 0


def _check(workspace: Workspace, *, json_: bool) -> int:
    with progress(shown=not json_) as bar:
        comparison = compare_projection(workspace, progress=bar)
    if json_:
        emit_json(comparison)
    else:
        admin_output.show_comparison(comparison)
    return FOUND_PROBLEMS if comparison.differs else 0


@admin.command("gc", short_help="Delete garbage and archive old ledger entries.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show what would be deleted.")
@click.option(
    "--plans", is_flag=True, help="Also delete unreferenced plans; reads the whole ledger."
)
@json_option
@with_workspace
def gc_(*, workspace: Workspace, dry_run: bool, plans: bool, json_: bool) -> int:
    """Delete unreferenced files and archive old ledger entries.

    Also deletes outputs beyond the retention of their assets, and files left behind by killed
    executions. Leaders do all this regularly. Ledger entries are never lost: they move to the
    archive.
    """
    found = collect_garbage(workspace, dry_run=dry_run, plans=plans)
    if json_:
        emit_json(found)
    else:
        admin_output.show_collected(found)
    if found.report.problems:
        return FOUND_PROBLEMS
    return QUEUED if any(receipt.queued for receipt in found.receipts) else 0
