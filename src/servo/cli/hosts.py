"""Who makes what a command asks for: this process, or one that is at work already."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.text import Text

from servo.cli.interrupts import interrupts
from servo.cli.options.project import locations, one_location
from servo.cli.options.workspace import Where
from servo.cli.rendering.output import console, plural
from servo.code.examine import examine, fingerprint, watched_files
from servo.code.loader import load_location
from servo.code.setting import CodeLocation
from servo.core.declared import Declared
from servo.errors import Invalid, ServoError
from servo.host.attached import AttachedHost
from servo.host.host import Host
from servo.host.leading import LeadingHost
from servo.host.opening import WantedCode, open_leading_or_attached
from servo.leader.lease import LeaderAdvert
from servo.sdk.definitions.executors import ExecutorDefinition, at_most
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.workers.local_pool.pool import GRACE
from servo.workspace.composition import without_user_libraries
from servo.workspace.leading import described
from servo.workspace.workspace import open_workspace

AT_ONCE = (
    "stopped at once; what was finished is kept, what was running will be done again: "
    "`servo resume` goes on from here"
)
EARLY = "interrupted before anything was asked for; ask again"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """The code that a command is about, and what a workspace is told of it.

    Without the project itself, which is large and needed no more once there is a plan.
    """

    location: CodeLocation
    declared: Declared
    executor: ExecutorDefinition | None = None
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the location."""
        return self.location.name

    def fingerprint(self) -> str:
        """The state of its files: those that were imported here, or by who looked at them."""
        seen = self.files or watched_files(self.location.code, Path(self.location.folder))
        return fingerprint(seen)


def read_code(given: str | None, *, as_dagster: bool = False) -> tuple[Code, Project]:
    """Find and import the code that is named, or the only one it can be."""
    return _read(one_location(given, as_dagster=as_dagster))


def _read(location: CodeLocation) -> tuple[Code, Project]:
    project = load_location(location)
    return Code(location=location, declared=declared(project), executor=project.executor), project


def read_codes(given: Sequence[str], *, as_dagster: bool = False) -> tuple[list[Code], bool]:
    """The code that is named, or all of the project file; whether some of it is broken.

    One location is imported here. Several are looked at in processes of their own, as their modules
    may be called the same; one that cannot be imported is told, and the others are taken.
    """
    found = locations(given, as_dagster=as_dagster)
    if len(found) == 1:
        code, _ = _read(found[0])
        return [code], False
    codes: list[Code] = []
    for location, examined in zip(found, examine(found), strict=True):
        if examined.error:
            told = f"{location.name} is left out: {examined.error}"
            console(stderr=True).print(Text(told, "red"), soft_wrap=True)
            continue
        code = Code(
            location=location,
            declared=examined.declared,
            files=examined.files,
            executor=examined.executor,
        )
        codes.append(code)
    refuse_shared({code.name: code.declared for code in codes})
    return codes, len(codes) < len(found)


def refuse_shared(declared: Mapping[str, Declared]) -> None:
    """`Invalid` if two locations define the same asset: it would be deployed back and forth."""
    owners: dict[str, str] = {}
    for name, its in declared.items():
        for made in its.assets:
            other = owners.setdefault(made.asset_key, name)
            if other != name:
                raise Invalid(
                    f"{made.asset_key} is defined by {other} and by {name}",
                    remedy="define it in one of them, or use another --workspace",
                )


@contextmanager
def open_host(
    code: Code,
    where: Where,
    workers: int,
    *,
    also: Sequence[Code] = (),
    backfills: bool = False,
) -> Generator[Host]:
    """Lead the workspace, or have it done by a process that does; both know what is defined.

    `also` is further code whose work is to be done. `backfills` is whether one that leads goes on
    with those that were begun.
    """
    with ExitStack() as opened:
        with telling_interrupted(EARLY):
            opened.enter_context(stopped_by_sigterm())
            opening = _host((code, *also), where, workers, backfills=backfills)
            host = opened.enter_context(opening)
            for one in (code, *also):
                host.deploy(one.name, one.declared)
            if isinstance(host, LeadingHost) and host.triggers is not None:
                host.triggers.start()
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
    codes: Sequence[Code], where: Where, workers: int, *, backfills: bool
) -> LeadingHost | AttachedHost:
    """A host that leads, or one that has the process do the work that leads already."""

    def lead() -> LeadingHost:
        without_user_libraries()
        return LeadingHost(
            *(where.setting(code.location) for code in codes),
            workers={code.name: at_most(workers, code.executor) for code in codes},
            triggers="backfills" if backfills else False,
            command=_command(),
        )

    wanted = [
        WantedCode(location=code.location, declared=code.declared, fingerprint=code.fingerprint)
        for code in codes
    ]
    workspace = open_workspace(where.address, must_exist=False)
    return open_leading_or_attached(wanted, workspace, lead, waiting=_tell_waiting, warn=_warn)


def _tell_waiting(leader: LeaderAdvert) -> None:
    told = f"waiting for {described(leader)}, which leads this workspace and has other code"
    _warn(told)


def _warn(told: str) -> None:
    console(stderr=True).print(Text(told, "yellow"), soft_wrap=True)


@contextmanager
def stopped_by_sigterm() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does, and both only where it is safe to stop."""
    with interrupts.raised_when_safe():
        yield
