"""What `servo admin` prints for people."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servo.cli.rendering.output import console, instant, number, plural, size
from servo.cli.rendering.tables import FittedTable, facts, grid
from servo.operations.admin import (
    Collected,
    Comparison,
    Inspection,
    NewestVersion,
    Problem,
    Rebuilt,
    RowDiff,
    VerifyReport,
)
from servo.workspace.address import Address

MOST_KEYS = 20
MOST_VALUE = 60


# --- inspect --------------------------------------------------------------------------------------


def show_inspection(found: Inspection, address: Address) -> None:
    out = console()
    name = f"{found.tenant}/{found.workspace}"
    out.print(Text.assemble((name, "bold"), f" in {address.store}"))
    out.print(_facts(found))
    for table in (_tables(found), _stored(found)):
        if table.row_count:
            out.print()
            out.print(table)


def _facts(found: Inspection) -> Table:
    table = facts()
    hot = found.last_entry - found.archived_entries
    table.add_row("ledger", f"{plural(found.last_entry, 'entry', 'entries')}, {number(hot)} hot")
    if found.newest is None:
        table.add_row("projection", "nothing published yet")
    else:
        for name, value in _version(found.newest, found.behind).items():
            table.add_row(name, value)
    for pin in found.pins:
        table.add_row("pin", f"{pin.id} holds version {pin.v} until {instant(pin.expires)}")
    return table


def _version(newest: NewestVersion, behind: int) -> dict[str, str]:
    lag = f", {plural(behind, 'entry', 'entries')} behind the ledger" if behind else ", up to date"
    return {
        "projection": f"version {newest.v} at entry {number(newest.applied_seq)}{lag}",
        "published": instant(newest.published_at),
        "leader": f"epoch {newest.epoch}, owner {newest.owner[:12]}",
        "fold": f"version {newest.fold_version}",
        "unmerged": f"at most {plural(newest.unmerged_files, 'file')} in a table",
    }


def _tables(found: Inspection) -> FittedTable:
    table = grid("table", "files", "unmerged", "active rows", "closed rows", "size", left=1)
    for held in sorted(found.tables, key=lambda held: held.bytes, reverse=True):
        table.add_row(
            held.table,
            number(held.files),
            number(held.unmerged),
            number(held.active_rows),
            number(held.closed_rows),
            size(held.bytes),
        )
    return table


def _stored(found: Inspection) -> FittedTable:
    table = grid("stored", "objects", "size", "newest", left=1)
    for stored in found.stored:
        newest = "–" if stored.newest is None else instant(stored.newest)
        table.add_row(stored.kind, number(stored.objects), size(stored.bytes), newest)
    return table


# --- verify ---------------------------------------------------------------------------------------


def show_report(report: VerifyReport) -> None:
    out = console()
    table = facts()
    table.add_row("ledger", plural(report.entries, "entry", "entries"))
    table.add_row("manifests", plural(report.manifests, "version"))
    table.add_row("files", f"{number(report.files)}, {size(report.bytes)}")
    table.add_row("plans", number(report.plans))
    table.add_row("large dead letters", number(report.dead_letters))
    table.add_row("projection", _compared(report))
    table.add_row("outputs", _looked_at(report.outputs))
    table.add_row("logs", _looked_at(report.logs))
    out.print(table)
    if report.sound:
        out.print("no problems found", style="green")
        return
    out.print(f"{plural(len(report.problems), 'problem')}:", style="bold red")
    for problem in report.problems:
        _show_problem(out, problem)


def _looked_at(count: int | None) -> str:
    return "not verified" if count is None else number(count)


def _compared(report: VerifyReport) -> str:
    if not report.compared:
        return "not compared because of the problems below"
    return f"compared with the ledger up to entry {number(report.applied_seq)}"


def _show_problem(out: Console, problem: Problem) -> None:
    out.print(Text.assemble((f"  {problem.part}: ", "red"), problem.what))
    out.print(Text.assemble(("    remedy: ", "bold"), problem.remedy))
    out.print(Text.assemble(("    runbook: ", "bold"), problem.runbook))


# --- rebuild --------------------------------------------------------------------------------------


def show_comparison(found: Comparison) -> None:
    out = console()
    if found.unreadable:
        out.print(
            Text.assemble(("the published projection cannot be read: ", "red"), found.unreadable)
        )
    elif not found.differences:
        where = f"version {found.v}, entry {number(found.applied_seq)}"
        out.print(f"the published projection matches the ledger ({where})", style="green")
    else:
        _show_diffs(out, found)


def show_published(made: Rebuilt) -> None:
    where = f"version {made.v}, entry {number(made.applied_seq or 0)}"
    console().print(f"published the rebuilt projection ({where})", style="green")


def _show_diffs(out: Console, found: Comparison) -> None:
    table = grid("table", "row", "column", "published", "rebuilt")
    for diff in found.differences:
        _add_diff(table, diff)
    out.print(table)
    count = f"{'more than ' if found.more else ''}{plural(len(found.differences), 'row')}"
    verb = "differs" if len(found.differences) == 1 and not found.more else "differ"
    out.print(f"{count} {verb} from the ledger", style="bold red")
    if any(diff.over for diff in found.differences):
        out.print("rows marked * belong to runs that have finished")


def _add_diff(table: FittedTable, diff: RowDiff) -> None:
    row = f"{', '.join(map(str, diff.key))}{'*' if diff.over else ''}"
    if not diff.published:
        table.add_row(diff.table, row, "", "–", "new")
    elif not diff.rebuilt:
        table.add_row(diff.table, row, "", "there", "–")
    for name, (published, rebuilt) in diff.columns.items():
        table.add_row(diff.table, row, name, _shown(published), _shown(rebuilt))


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_VALUE else f"{text[: MOST_VALUE - 1]}…"


# --- gc -------------------------------------------------------------------------------------------


def show_collected(found: Collected) -> None:
    out, report = console(), found.report
    keys = [*report.deleted, *found.plans]
    for key in keys[:MOST_KEYS]:
        out.print(Text(f"  {key}", style="dim"))
    if len(keys) > MOST_KEYS:
        out.print(Text(f"  and {number(len(keys) - MOST_KEYS)} more", style="dim"))
    parts = [
        plural(report.manifests, "manifest"),
        plural(report.files, "file"),
        *([plural(report.outputs, "output")] if report.outputs else []),
        *([plural(len(found.plans), "plan")] if found.plans else []),
    ]
    verb, style = ("would delete", "bold") if found.dry_run else ("deleted", "green")
    freed = size(report.bytes + found.plan_bytes)
    out.print(f"{verb} {', '.join(parts)} ({freed})", style=style)
    if report.expired:
        out.print(f"{plural(len(report.expired), 'output')} {_expiry(found)}")
    if report.packed or report.entries:
        hot = plural(report.entries, "hot copy", "hot copies")
        out.print(f"archived {plural(report.packed, 'entry', 'entries')}, deleted {hot}")
    for problem in report.problems:
        out.print(Text.assemble(("problem: ", "red"), problem))


def _expiry(found: Collected) -> str:
    if found.dry_run:
        return "would expire"
    if any(receipt.queued for receipt in found.receipts):
        return "will expire when the leader processes the request"
    return "expired; a later collection deletes the data"
