"""Who makes what a command asks for: this process, or one that is at work already."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import click
from rich.text import Text

from servo.cli.interrupts import interrupts
from servo.cli.options.workspace import Where
from servo.cli.rendering.output import console, plural
from servo.errors import ServoError
from servo.host.host import Host
from servo.host.location_code import LocationCode, lead_with
from servo.host.opening import open_leading_or_attached
from servo.leader.lease import HostedTriggers, LeaderAdvert
from servo.workers.local_pool.pool import GRACE
from servo.workspace.leading import described
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
    """Lead the workspace, or have its leader do the work; both know what the code defines.

    `also` is further code to work for. With `backfills`, a host that leads continues those that
    have not finished. A command that `plans` nothing can follow a leader with other code.
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
    """The command that runs, as a leader says of itself."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path.partition(" ")[2]


@contextmanager
def telling_interrupted(what: str) -> Generator[None]:
    """Say this of an interruption that nobody has said anything of, such as a second Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(str(stopped) or what) from None


def interrupt(host: Host) -> str:
    """Stop what a host does, after Ctrl-C; how to go on with it.

    User code may clean up for a while, so whoever is looking is told what is waited for.
    """
    tell_stopping(host)
    return host.interrupt()


def finish(host: Host) -> None:
    """Let what runs for others end, once what was asked for here is done.

    They would lose what it has done so far. Whoever does not want to wait presses Ctrl-C.
    """
    running = 0
    with suppress(ServoError):
        running = len(host.running()) if host.leads else 0
    if not running:
        return
    told = f"done; finishing {plural(running, 'task')} that other processes wait for"
    console(stderr=True).print(Text(f"{told}; Ctrl-C leaves them the rest", "yellow"))
    try:
        host.finish()
    except KeyboardInterrupt:
        _ = host.interrupt()


def tell_stopping(host: Host) -> None:
    """Say what is waited for, where somebody is looking and something runs here."""
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
    """A host that leads, or one that has the process do the work that leads already."""

    def lead() -> Host:
        return lead_with(
            codes, where.address, workers=workers, triggers=triggers, command=_command()
        )

    workspace = open_workspace(where.address, must_exist=False)
    return open_leading_or_attached(
        codes,
        workspace,
        lead,
        waiting=_tell_waiting,
        warn=_warn,
        triggers=triggers,
        plans=plans,
    )


def _tell_waiting(leader: LeaderAdvert) -> None:
    _warn(f"waiting for {described(leader)}, which leads this workspace with other code")


def _warn(told: str) -> None:
    console(stderr=True).print(Text(told, "yellow"), soft_wrap=True)


@contextmanager
def stopped_by_sigterm() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does, and both only where it is safe to stop."""
    with interrupts.raised_when_safe():
        yield
