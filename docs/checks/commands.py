"""Is every command, option and exit code described, and does every command line work?

Commands are loaded from the command line itself. Where that does not exist, or one of its commands
cannot be imported yet, there is nothing to compare with.
"""

import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click
from checks.markdown import Docs, plain
from checks.reference import make_verbs

COMMON = "Options of every command that reads a workspace"
TOP = "servo"


def commands(docs: Docs) -> Iterator[str]:
    """Every command has a section, every option a row, and the other way round."""
    page = docs["guide/cli.md"]
    known = command_options()
    shared = {plain(row[0]) for row in page.section(COMMON).rows()}
    for name, options in known.items():
        section = page.section(name)
        if not section.level:
            yield f"{page.name} does not describe {name}"
        rows = {plain(row[0]) for row in section.rows()}
        yield from (
            f"{page.name}: {name} does not describe {option}"
            for option in options
            if option not in rows | shared
        )
        yield from (
            f"{page.name}: {name} has no option {option}"
            for option in rows
            if option not in options
        )
    titles = [section.title for section in page.sections() if section.title.startswith(TOP)]
    if known:
        yield from (f"{page.name}: there is no {title}" for title in titles if title not in known)


def exit_codes(docs: Docs) -> Iterator[str]:
    """Every kind of error and its code."""
    page = docs["guide/cli.md"]
    codes = import_module("servo.cli.output").EXIT_CODES
    rows = {plain(row[1]): row[0] for row in page.section("Exit codes").rows() if row[1]}
    expected = {kind.__name__: str(code) for kind, code in codes.items()}
    if rows != expected:
        yield f"{page.name}: the exit codes are {expected}"


def command_lines(docs: Docs) -> Iterator[str]:
    """Every line of a shell block that calls `servo` or `make`."""
    known, verbs = command_options(), make_verbs()
    for document in docs:
        for fence in document.fences("sh"):
            for line in fence.text.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["make"] and words[1] not in verbs:
                    yield f"{document.name}: there is no verb {words[1]!r}"
                if words[:1] == [TOP] and known:
                    yield from (f"{document.name}: {fault}" for fault in _faults(words, known))


def _faults(words: list[str], known: Mapping[str, list[str]]) -> Iterator[str]:
    name = next((" ".join(words[:n]) for n in (4, 3, 2) if " ".join(words[:n]) in known), None)
    if name is None:
        yield f"{' '.join(words[:3])!r} is no command"
        return
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    yield from (f"{name} has no option {option}" for option in options if option not in known[name])


def command_options() -> dict[str, list[str]]:
    """Every command that can be called, by its words, with its long options."""
    try:
        top: Any = import_module("servo.cli.main").cli
    except ModuleNotFoundError:
        return {}
    return dict(_walk(TOP, top))


def _walk(name: str, command: Any) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(command, click.Group):
        options = (option for param in command.params for option in param.opts)
        yield name, [option for option in options if option.startswith("--")]
        return
    context = click.Context(command)
    for child in command.list_commands(context):
        try:
            found = command.get_command(context, child)
        except ModuleNotFoundError:
            continue
        yield from _walk(f"{name} {child}", found)
