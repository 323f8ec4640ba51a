"""Is every exit code described, and would every command line in the documentation be accepted?"""

import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click
from checks.markdown import Docs, plain
from checks.reference import make_verbs

TOP = "servo"


def exit_codes(docs: Docs) -> Iterator[str]:
    """Every kind of error and its code."""
    page = docs["reference/errors.md"]
    codes = import_module("servo.cli.rendering.output").EXIT_CODES
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
        yield f"{' '.join(words[:3])!r} is not a command"
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
