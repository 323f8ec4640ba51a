"""The reference of the command line, written from the command line itself.

`python docs/build.py --write` writes `docs/reference/cli.md`; the check says if it is not that.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
from checks.markdown import Docs

PAGE = "reference/cli.md"
TOP = "servo"

_HEAD = """\
# Command line reference

Written from the commands themselves by `python docs/build.py --write`. The
[guide](../guide/cli.md) explains what they do and how they go together.
"""


def reference(docs: Docs) -> Iterator[str]:
    """The page is what the commands say of themselves."""
    path = docs.root / "docs" / PAGE
    if not path.is_file() or path.read_text() != page():
        yield f"docs/{PAGE} is not what the commands say: run python docs/build.py --write"


def page() -> str:
    """The whole page."""
    top: Any = import_module("servo.cli.main").cli
    return "\n".join([_HEAD, *_sections(top, click.Context(top, info_name=TOP))])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if context.parent is not None:
        yield _section(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _sections(child, click.Context(child, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [f"## {context.command_path}", "", "```text", usage, "```", ""]
    lines += [*_described(command), ""]
    options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
    shown = [option for option in options if not option.hidden and option.name != "help"]
    if shown and not isinstance(command, click.Group):
        lines += ["| option | meaning | default |", "|---|---|---|"]
        lines += [_row(option, context) for option in shown]
        lines.append("")
    return "\n".join(lines)


def _described(command: click.Command) -> list[str]:
    """The help of a command as Markdown; a block that is kept as it is becomes one."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    made: list[str] = []
    for paragraph in paragraphs:
        kept = paragraph.startswith("\b\n")
        made += ["```text", paragraph[2:], "```", ""] if kept else [paragraph, ""]
    return made[:-1]


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    names = (record[0] if record else ", ".join(option.opts)).replace("|", "\\|")
    default = option.get_default(context)
    told = isinstance(default, str | int) and not option.is_flag
    held = f"`{default}`" if told else ""
    return f"| `{names}` | {option.help or ''} | {held} |"
