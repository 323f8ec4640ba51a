"""Findings as a tree, with what to do about each."""

from collections.abc import Sequence
from shlex import quote

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from servo.cli.options.project import default_store, default_tenant, default_workspace
from servo.cli.rendering.output import console
from servo.core.explain.finding import Finding, FindingStatus
from servo.workspace.address import Address

_STYLES = {
    FindingStatus.DONE: "green",
    FindingStatus.WAITS: "yellow",
    FindingStatus.FAILED: "red",
    FindingStatus.NOTE: "dim",
}
_MARKS = {
    FindingStatus.DONE: "✔",
    FindingStatus.WAITS: "◌",
    FindingStatus.FAILED: "✘",
    FindingStatus.NOTE: "·",
}
_PLAIN_MARKS = {
    FindingStatus.DONE: "+",
    FindingStatus.WAITS: "?",
    FindingStatus.FAILED: "!",
    FindingStatus.NOTE: "-",
}

GUIDE = 4
"""How many columns a tree takes for each level."""

LEAST = 20


def show(findings: Sequence[Finding], options: str) -> None:
    """Print findings, each with what led to it; commands are shown with these options."""
    printer = _Printer(console(), options)
    for finding in findings:
        printer.show(finding)


class _Printer:
    def __init__(self, out: Console, options: str) -> None:
        self._out = out
        self._plain = out.options.ascii_only
        self._options = options
        self._told: set[str] = set()

    def show(self, finding: Finding) -> None:
        tree = Tree(self._label(finding, 0), guide_style="dim")
        self._grow(tree, finding, 1)
        self._out.print(tree)

    def _grow(self, tree: Tree, finding: Finding, depth: int) -> None:
        for cause in finding.because:
            self._grow(tree.add(self._label(cause, depth)), cause, depth + 1)

    def _label(self, finding: Finding, depth: int) -> Text:
        mark = (_PLAIN_MARKS if self._plain else _MARKS)[finding.status]
        text = Text(finding.text)
        if finding.seq is not None:
            text.append(f"  entry {finding.seq}", "dim")
        width = max(self._out.width - depth * GUIDE, LEAST)
        lines = self._hanging(Text(f"{mark} ", _STYLES[finding.status]), text, width)
        if finding.next:
            arrow = Text("  -> " if self._plain else "  → ", "bold")
            lines += self._hanging(arrow, Text(finding.next, "bold"), width)
        if finding.command and finding.command not in self._told:
            self._told.add(finding.command)  # one that stands above need not be said again
            lines.append(Text(f"    {finding.command}{self._options}", "cyan"))
        return Text("\n").join(lines)

    def _hanging(self, head: Text, text: Text, width: int) -> list[Text]:
        """Text after a mark, its further lines below the first word and not below the mark."""
        first, *rest = text.wrap(self._out, max(width - len(head), LEAST)) or [text]
        return [head + first, *(Text(" " * len(head)) + line for line in rest)]


def workspace_options(address: Address) -> str:
    """The options that a command needs to be about the same workspace as this one."""
    usual = Address.of(default_store())
    given = (
        ("--store", address.store, usual.store),
        ("--tenant", address.tenant, default_tenant()),
        ("--workspace", address.workspace, default_workspace()),
    )
    return "".join(f" {name} {quote(value)}" for name, value, default in given if value != default)
