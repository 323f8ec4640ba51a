"""How findings are shown to people: a tree, with what to do about each."""

import os
from collections.abc import Sequence
from shlex import quote

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from servo.cli.output import console
from servo.cli.workspace import DEFAULT_STORE, Target
from servo.core.explain.finding import Finding, Mood

_STYLES = {Mood.DONE: "green", Mood.WAITS: "yellow", Mood.FAILED: "red", Mood.NOTE: "dim"}
_MARKS = {Mood.DONE: "✔", Mood.WAITS: "◌", Mood.FAILED: "✘", Mood.NOTE: "·"}
_PLAIN_MARKS = {Mood.DONE: "+", Mood.WAITS: "?", Mood.FAILED: "!", Mood.NOTE: "-"}


def show(findings: Sequence[Finding], options: str) -> None:
    """Print findings, each with what led to it; commands are shown with these options."""
    printer = _Printer(console(), options)
    for finding in findings:
        printer.show(finding)


class _Printer:
    def __init__(self, out: Console, options: str) -> None:
        self._out = out
        self._options = options
        self._told: set[str] = set()

    def show(self, finding: Finding) -> None:
        tree = Tree(self._label(finding), guide_style="dim")
        self._grow(tree, finding)
        self._out.print(tree)

    def _grow(self, tree: Tree, finding: Finding) -> None:
        for cause in finding.because:
            self._grow(tree.add(self._label(cause)), cause)

    def _label(self, finding: Finding) -> Text:
        plain = self._out.options.ascii_only
        mark = (_PLAIN_MARKS if plain else _MARKS)[finding.mood]
        label = Text.assemble((f"{mark} ", _STYLES[finding.mood]), finding.text)
        if finding.seq is not None:
            label.append(f"  entry {finding.seq}", "dim")
        if finding.next:
            label.append(f"\n  {'->' if plain else '→'} {finding.next}", "bold")
        if finding.command and finding.command not in self._told:
            self._told.add(finding.command)  # one that stands above need not be said again
            label.append(f"\n    {finding.command}{self._options}", "cyan")
        return label


def workspace_options(target: Target) -> str:
    """What a command needs to be about the same workspace as this one."""
    paths = target.paths
    given = (
        ("--store", target.url, os.environ.get("SERVO_STORE") or DEFAULT_STORE),
        ("--tenant", paths.tenant, "default"),
        ("--workspace", paths.workspace, "default"),
    )
    return "".join(f" {name} {quote(value)}" for name, value, default in given if value != default)
