"""The command line: `servo`.

Commands are imported when they are called, so that `servo --version` and a mistyped option answer
at once and no command pays for the libraries of another.

An error is one line on standard error that ends with the remedy; its kind sets the exit code (see
`servo.cli.rendering.output`).
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

import click

from servo import __version__
from servo.cli.interrupts import interrupts
from servo.cli.rendering.output import BUG, INTERRUPTED, exit_code, fail
from servo.errors import Invalid, ServoError

DEBUG = "SERVO_DEBUG"
MAX_MESSAGE = 4000
PROGRAM = "servo"
COMPLETE = "_SERVO_COMPLETE"
"""What the script of `servo completion` sets when the shell wants to know how to go on."""

# Each command: where it is, and what `servo --help` says of it, which must not import it.
COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "admin": (
            "servo.cli.commands.admin:admin",
            "Verify, rebuild and clean up stored data; set limits.",
        ),
        "asset": (
            "servo.cli.commands.assets:asset",
            "Show assets and their outputs; wipe an asset.",
        ),
        "automation": (
            "servo.cli.commands.automation:automation",
            "Explain, pause and dry-run conditions.",
        ),
        "backfill": ("servo.cli.commands.backfills:backfill", "Materialize many partitions."),
        "check": ("servo.cli.commands.project:check", "Validate a project."),
        "completion": ("servo.cli.commands.completion:completion", "Set up shell completion."),
        "demo": ("servo.cli.commands.demo:demo", "Run a guided example in this terminal."),
        "dev": ("servo.cli.commands.dev:dev", "Run a project locally and reload it on changes."),
        "init": ("servo.cli.commands.project:init", "Create a project."),
        "list": ("servo.cli.commands.project:list_", "List the assets of a project."),
        "logs": ("servo.cli.commands.logs:logs", "Print what a run logged."),
        "materialize": ("servo.cli.commands.materialize:materialize", "Materialize assets."),
        "partitions": (
            "servo.cli.commands.partitions:partitions",
            "Show partitions; add and delete dynamic ones.",
        ),
        "quarantine": (
            "servo.cli.commands.quarantine:quarantine",
            "Approve or reject held outputs.",
        ),
        "resume": ("servo.cli.commands.resume:resume", "Finish interrupted runs and backfills."),
        "run": ("servo.cli.commands.runs:run", "Show, cancel and retry runs."),
        "sensor": (
            "servo.cli.commands.sensors:sensor",
            "Show, pause, push to and evaluate sensors.",
        ),
        "status": ("servo.cli.commands.status:status", "Summarize a workspace."),
        "tick": ("servo.cli.commands.tick:tick", "Run everything that is due now, then exit."),
        "schedule": ("servo.cli.commands.schedules:schedule", "Show, pause and trigger schedules."),
        "sql": ("servo.cli.commands.sql:sql", "Query tables and asset data with SQL."),
        "why": ("servo.cli.commands.why:why", "Explain an asset, a run or a task."),
        "why-not": ("servo.cli.commands.why:why_not", "Explain why an asset was not materialized."),
    }
)

# What `servo --help` puts together. A command that is in none of them comes last.
SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Project": ("init", "check", "list", "dev", "demo"),
        "Materialization": ("materialize", "resume"),
        "Automation": (
            "schedule",
            "sensor",
            "automation",
            "backfill",
            "partitions",
            "tick",
        ),
        "Inspection": ("status", "run", "asset", "why", "why-not", "logs", "sql"),
        "Administration": ("quarantine", "admin"),
    }
)
OTHERS = "Other"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return _load(COMMANDS[cmd_name][0]) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click offers the commands that it knows, and it knows none before they are used.
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            close = import_module("difflib").get_close_matches(name, COMMANDS, n=1)
            if close:
                ctx.fail(f"No such command {name!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        placed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in placed)
        sections = {**SECTIONS, OTHERS: others} if others else SECTIONS
        width = max(map(len, COMMANDS))
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", COMMANDS[name][1]) for name in names])


def _load(path: str) -> click.Command:
    module, _, name = path.partition(":")
    return cast("click.Command", getattr(import_module(module), name))


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="servo %(version)s")
def cli() -> None:
    """Servo: a data orchestrator whose only database is a bucket."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    if asked := os.environ.get(COMPLETE):
        shells = import_module("click.shell_completion")
        sys.exit(shells.shell_complete(cli, {}, PROGRAM, COMPLETE, asked))
    interrupts.install()
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain when it flushes again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    # All is said and done. Ctrl-C while Python cleans up would only change the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    # Not `cli.main`, which has ideas of its own about pipes that close and keys that interrupt.
    try:
        _check_encoding(arguments)
        with cli.make_context(PROGRAM, list(arguments)) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as stopped:
        fail(str(stopped) or "interrupted")
        return INTERRUPTED
    except ServoError as error:
        fail(_shortened(str(error)))
        return exit_code(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can say something sensible
        return _bug(error)
    return result if isinstance(result, int) else 0


def _bug(error: Exception) -> int:
    if os.environ.get(DEBUG):
        raise error
    told = _shortened(f"{type(error).__name__}: {error}")
    fail(f"{told}; this is a bug: report it with {DEBUG}=1 set")
    return BUG


def _check_encoding(arguments: Sequence[str]) -> None:
    """Refuse an argument that is not UTF-8: nothing with such a name can be stored."""
    for text in arguments:
        try:
            _ = text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text)
            raise Invalid(
                f"an argument is not UTF-8: {str(shown)[1:]}", remedy="use UTF-8"
            ) from None


def _shortened(message: str) -> str:
    """A message without its middle, if an argument in it is so long that it hides the rest."""
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"


if __name__ == "__main__":
    main()
