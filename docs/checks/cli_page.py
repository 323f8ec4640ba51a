"""The command line reference, generated from the commands' own help.

`python docs/build.py --write` writes `docs/reference/cli.md`; the check fails if the page differs
from what the commands say. A command or an option without help fails it too.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
from checks.markdown import Docs

PAGE = "reference/cli.md"
TOP = "servo"
SHARED = ("--store", "--tenant", "--workspace")

_HEAD = """\
# Command line

<!-- Generated from the commands by `python docs/build.py --write`; do not edit by hand. -->

Commands print results to standard output and everything else to standard error. With `--json`
they print exactly one JSON value, or nothing if they end with an error. Colours and progress bars
appear only on a terminal. An error is text on standard error, also with `--json`. It ends with what
to do about it, and its kind sets the [exit code](errors.md#exit-codes).

`servo --version` prints the version, `--help` explains any command, and `python -m servo` is the
same as `servo`. To learn how commands work together, read [Run assets](../how-to/run.md).

## Workspace options

Commands that read or write a workspace take these options; the sections below mention only the
others.

| option | meaning | default |
|---|---|---|
| `--store TEXT` | Folder or URL of the store; also `$SERVO_STORE`. | `.servo` |
| `--tenant TEXT` | Name of the tenant. | `default` |
| `--workspace TEXT` | Name of the workspace. | `default` |
"""


def commands(docs: Docs) -> Iterator[str]:
    """The page is what the commands say of themselves, and every command says something."""
    path = docs.root / "docs" / PAGE
    if not path.is_file() or path.read_text() != page():
        yield f"docs/{PAGE} differs from the commands: run python docs/build.py --write"
    for context in _contexts():
        if not context.command.help:
            yield f"{context.command_path} has no help"
        yield from (
            f"{context.command_path} {option.opts[0]} has no help"
            for option in _options(context)
            if not option.help and not isinstance(option.type, click.Choice)
        )


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(context) for context in _contexts())])


def _contexts() -> Iterator[click.Context]:
    top: Any = import_module("servo.cli.main").cli
    return _walk(click.Context(top, info_name=TOP))


def _walk(context: click.Context) -> Iterator[click.Context]:
    """Every command and group below one, in the order of the help."""
    if context.parent is not None:
        yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            child = context.command.get_command(context, name)
            if child is not None:
                yield from _walk(click.Context(child, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    command = context.command
    depth = len(context.command_path.split())
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [f"{'#' * depth} {context.command_path}", "", "```text", usage, "```", ""]
    lines += [*_described(command), ""]
    shown = [option for option in _options(context) if option.opts[0] not in SHARED]
    if shown and not isinstance(command, click.Group):
        lines += ["| option | meaning | default |", "|---|---|---|"]
        lines += [_row(option, context) for option in shown]
        lines.append("")
    return "\n".join(lines)


def _options(context: click.Context) -> list[click.Option]:
    """The options people read about: not hidden ones, and not `--help`."""
    options = [p for p in context.command.get_params(context) if isinstance(p, click.Option)]
    return [option for option in options if not option.hidden and "--help" not in option.opts]


def _described(command: click.Command) -> list[str]:
    """The help of a command as Markdown; a block that click prints verbatim becomes a fence."""
    made: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        verbatim = paragraph.startswith("\b\n")
        made += ["```text", paragraph[2:], "```", ""] if verbatim else [paragraph, ""]
    return made[:-1]


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    names = (record[0] if record else ", ".join(option.opts)).replace("|", "\\|")
    default = option.get_default(context)
    shown = isinstance(default, str | int) and default != "" and not option.is_flag
    return f"| `{names}` | {option.help or ''} | {f'`{default}`' if shown else ''} |"
