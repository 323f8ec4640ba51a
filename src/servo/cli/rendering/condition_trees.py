"""The tree of an automation condition, drawn for people: parts, and whether each is true."""

from rich.text import Text
from rich.tree import Tree as Drawing

from servo.cli.rendering.output import console, plural
from servo.core.automation.telling import count, deciding, named, truth
from servo.core.automation.trees import Tree

_MARKS = {True: "✔", False: "✘"}
_PLAIN_MARKS = {True: "+", False: "-"}


def draw(tree: Tree, *, whole: bool = False) -> None:
    """Print a tree: all of it, or what decided it."""
    out = console()
    every, tree = tree, tree if whole else deciding(tree)
    marks = _PLAIN_MARKS if out.options.ascii_only else _MARKS
    drawing = Drawing(_label(tree, marks), guide_style="dim")
    _grow(drawing, tree, marks)
    out.print(drawing)
    if hidden := count(every) - count(tree):
        out.print(f"{plural(hidden, 'part')} did not decide; show them with --all", style="dim")


def _grow(drawing: Drawing, tree: Tree, marks: dict[bool, str]) -> None:
    for part in tree.children:
        _grow(drawing.add(_label(part, marks)), part, marks)
    if tree.more:
        _ = drawing.add(Text(f"and {plural(tree.more, 'more part')}", "dim"))


def _label(tree: Tree, marks: dict[bool, str]) -> Text:
    true = tree.true > 0
    label = Text(f"{marks[true]} ", "green" if true else "red")
    return label.append(named(tree), "" if true else "dim").append(f"  {truth(tree)}", "bold")
