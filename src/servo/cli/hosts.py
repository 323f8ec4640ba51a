"""The host of a command: this process, or a leader that is already running."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import click
from rich.text import Text

from servo.cli.interrupts import interrupts
from servo.cli.options.workspace import Where
from servo.cli.rendering.output import console, plural, warn
from servo.errors import ServoError
from servo.host.host import Host
from servo.host.location_code import LocationCode, lead_with
from servo.host.opening import open_leading_or_attached
from servo.leader.leases.lease import HostedTriggers
from servo.workers.local_pool.pool import GRACE
from servo.workspace.workspace import open_workspace

AT_ONCE = (
    "stopped at once: finished tasks are kept, running tasks will be repeated; "
    "continue with `servo resume`"
)
EARLY = "interrupted before anything was requested; run the command again"


@contextmanager
def open_host(
    code: LocationCode,
    where: Where,
    workers: int,
    *,
    also: Sequence[LocationCode] = (),
    backfills: bool = False,
    plans: bool = True,
) -> Generator[Host]:
    """Lead the workspace, or use its leader; both have the code.

    `also` is further code. With `backfills`, a host that leads continues unfinished backfills. A
    command that `plans` nothing can also be a client of a leader with other code.
    """
    triggers = HostedTriggers.BACKFILLS if backfills else HostedTriggers.NONE
    with ExitStack() as opened:
        with telling_interrupted(EARLY):
            opened.enter_context(stopped_by_sigterm())
            opening = _host((code, *also), where, workers, triggers, plans=plans)
            host = opened.enter_context(opening)
            host.start_triggers()
        with telling_interrupted(AT_ONCE), opened.pop_all():
            try:
                yield host
                finish(host)
                interrupts.ends()
            except KeyboardInterrupt as stopped:
                raise KeyboardInterrupt(str(stopped) or interrupt(host)) from None


def _command() -> str:
    """The command that runs, for the description of the leader."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path.partition(" ")[2]


@contextmanager
def telling_interrupted(what: str) -> Generator[None]:
    """Add this message to an interruption without one, such as a second Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(str(stopped) or what) from None


def interrupt(host: Host) -> str:
    """Stop a host after Ctrl-C; the message that says how to resume.

    User code may clean up for a while, so the terminal shows what the command waits for.
    """
    tell_stopping(host)
    return host.interrupt()


def finish(host: Host) -> None:
    """Let tasks that run for other processes finish, once the command itself is done.

    Otherwise they would lose the work done so far. Ctrl-C skips the wait.
    """
    running = 0
    with suppress(ServoError):
        running = len(host.running()) if host.leads else 0
    if not running:
        return
    told = f"done; finishing {plural(running, 'task')} for other processes"
    console(stderr=True).print(Text(f"{told}; Ctrl-C leaves the rest to them", "yellow"))
    try:
        host.finish()
    except KeyboardInterrupt:
        _ = host.interrupt()


def tell_stopping(host: Host) -> None:
    """Print what the command waits for, on a terminal and if tasks run here."""
    stderr = console(stderr=True)
    if stderr.is_terminal and host.leads and (running := len(host.running())):
        left = f"{plural(running, 'task')} may clean up for up to {GRACE.total_seconds():.0f} s"
        stderr.print(Text(f"stopping: {left}; Ctrl-C again stops at once", "yellow"))


def _host(
    codes: Sequence[LocationCode],
    where: Where,
    workers: int,
    triggers: HostedTriggers,
    *,
    plans: bool,
) -> Host:
    """A host that leads, or a client of the leader."""

    def lead() -> Host:
        return lead_with(
            codes, where.address, workers=workers, triggers=triggers, command=_command()
        )

    workspace = open_workspace(where.address, must_exist=False)
    return open_leading_or_attached(
        codes,
        workspace,
        lead,
        warn=warn,
        triggers=triggers,
        plans=plans,
    )


@contextmanager
def stopped_by_sigterm() -> Generator[None]:
    """Make SIGTERM act like Ctrl-C, and both only where it is safe to stop."""
    with interrupts.raised_when_safe():
        yield
