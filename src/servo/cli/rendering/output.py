"""How commands speak: results on standard output, everything else on standard error.

    0    done
    2    Invalid       fix the request (also what click answers to a wrong option)
    3    NotFound
    4    Conflict
    5    Fenced
    6    Unavailable
    7    Corrupt
    8    queued        the leader has not processed the request yet
    9    NeedsUpgrade   a newer Servo wrote the workspace
    70   Internal      a bug in Servo
    130  interrupted

`--json` prints one JSON value and nothing else. Colours and bars appear where somebody is looking
and nowhere else.
"""

import re
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import click

from servo.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Internal,
    Invalid,
    NeedsUpgrade,
    NotFound,
    ServoError,
    Unavailable,
)

if TYPE_CHECKING:
    from rich.console import Console

EXIT_CODES: Mapping[type[ServoError], int] = MappingProxyType(
    {
        Invalid: 2,
        NotFound: 3,
        Conflict: 4,
        Fenced: 5,
        Unavailable: 6,
        Corrupt: 7,
        NeedsUpgrade: 9,
        Internal: 70,
    }
)
BUG = 70
INTERRUPTED = 130

_UNITS = ("B", "kB", "MB", "GB", "TB")
_THOUSAND = 1000

# No terminal, no width: what is cut to eighty columns is of no use to a program.
_ENDLESS = 10_000

# Stands for a space at which a line must not be broken.
_HARD_SPACE = "\ue000"


def exit_code(error: ServoError) -> int:
    """The exit code of an error, by its kind."""
    kinds = (kind for kind in type(error).__mro__ if kind in EXIT_CODES)
    return next((EXIT_CODES[kind] for kind in kinds), BUG)


def fail(message: str) -> None:
    """Say on standard error what went wrong."""
    mark = "error: "
    click.secho(mark, fg="red", bold=True, nl=False, err=True)
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else _ENDLESS
    click.echo(wrapped(message, width, taken=len(mark)), err=True)


def wrapped(text: str, width: int, *, taken: int = 0, indent: str = "") -> str:
    """Text in lines of at most `width` columns, broken between words.

    The first `taken` columns are in use. A command in backticks stays in one piece, to be copied
    from one line, and so does a word that is longer than a line: the terminal breaks those. Lines
    that begin with a space are kept: they show code.
    """
    first, *others = text.split("\n")
    lines = [_wrapped_line(" " * taken + first, width, indent)[taken:]]
    lines += [line if line[:1] == " " else _wrapped_line(line, width, indent) for line in others]
    return "\n".join(lines)


def _wrapped_line(line: str, width: int, indent: str) -> str:
    if len(line) <= width:
        return line
    whole = re.sub("`[^`]*`", lambda found: found[0].replace(" ", _HARD_SPACE), line)
    wrap = import_module("textwrap").fill
    options = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return wrap(whole, width, **options).replace(_HARD_SPACE, " ")


def console(*, stderr: bool = False) -> "Console":
    """A console of rich, imported now and not before.

    It takes text as it is: a task key or an error with brackets is not markup.
    """
    made = import_module("rich.console").Console(stderr=stderr, highlight=False, markup=False)
    if not made.is_terminal:
        made.width = _ENDLESS
    return made


def emit_json(value: object, *, indent: int = 2) -> None:
    """Print one JSON value."""
    encoded = import_module("servo.operations.interface.encoding").encode_result(value)
    data: bytes = import_module("msgspec").json.format(encoded, indent=indent)
    sys.stdout.write(data.decode() + "\n")


# --- words ----------------------------------------------------------------------------------------


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < _THOUSAND:
        return f"{count} B"
    power = min((len(str(count)) - 1) // 3, len(_UNITS) - 1)
    return f"{Decimal(count) / _THOUSAND**power:.1f} {_UNITS[power]}"


def number(count: int) -> str:
    """A count with its thousands apart."""
    return f"{count:,}"


def warn(told: str) -> None:
    """Print something that the user should know while a command goes on."""
    console(stderr=True).print(told, style="yellow", markup=False, highlight=False, soft_wrap=True)


def plural(count: int, one: str, many: str = "") -> str:
    """A count and its noun."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def instant(when: datetime) -> str:
    """An instant for people: UTC, to the second."""
    return f"{when:%Y-%m-%d %H:%M:%S}Z"


# --- progress -------------------------------------------------------------------------------------


class Bar(Protocol):
    """Shows how far something is."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


@contextmanager
def progress(*, shown: bool = True) -> Generator[Bar]:
    """A bar for each thing that is reported, on standard error, where somebody is looking."""
    stderr = console(stderr=True)
    if not shown or not stderr.is_terminal:
        yield _nothing
        return
    rich = import_module("rich.progress")
    columns = (
        rich.TextColumn("{task.description}", style="cyan"),
        rich.BarColumn(bar_width=32),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=stderr, transient=True) as shown_bars:
        yield _Bars(shown_bars)


def _nothing(what: str, done: int, total: int) -> None:
    del what, done, total


class _Bars:
    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
