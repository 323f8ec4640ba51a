"""Who makes what a command asks for: this process, or one that is at work already."""

import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec
from rich.text import Text

from servo.cli.code import find_code
from servo.cli.output import console, plural
from servo.cli.workspace import Target, Where
from servo.code.examine import fingerprint, watched_files
from servo.code.loader import load_location
from servo.code.setting import CodeLocation, Setting
from servo.core.declared import Declared
from servo.host.attached import AttachedHost
from servo.host.host import Host
from servo.host.leading import LeadingHost
from servo.host.opening import WantedCode, open_leading_or_attached
from servo.leader.lease import LeaderAdvert
from servo.projection.files.arrow import without_pandas
from servo.sdk.definitions.executors import ExecutorDefinition, at_most
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.workers.local_pool.pool import GRACE
from servo.workspace.address import Address
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

    @property
    def name(self) -> str:
        """The name of the location."""
        return self.location.name


def read_code(given: str | None, *, as_dagster: bool = False) -> tuple[Code, Project]:
    """Find and import the code that is named, or the only one it can be."""
    folder = Path.cwd()
    name = find_code(given, folder)
    location = CodeLocation(name=name, code=name, folder=str(folder), as_dagster=as_dagster)
    project = load_location(location)
    return Code(location=location, declared=declared(project), executor=project.executor), project


@contextmanager
def open_host(
    code: Code, where: Where, workers: int, *, backfills: bool = False
) -> Generator[Host]:
    """Lead the workspace, or have it done by a process that does; both know what is defined.

    `backfills` is whether one that leads goes on with those that were begun.
    """
    setting = where.setting(code.location)
    with ExitStack() as opened:
        with telling_interrupted(EARLY):
            opened.enter_context(stopped_by_sigterm())
            opening = _host(setting, code, workers, backfills=backfills, command=_command())
            host = opened.enter_context(opening)
            host.deploy(code.name, code.declared)
            if isinstance(host, LeadingHost) and host.triggers is not None:
                host.triggers.start()
        with telling_interrupted(AT_ONCE), opened.pop_all():
            try:
                yield host
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


def tell_stopping(host: Host) -> None:
    """Say what is waited for, where somebody is looking and something runs here."""
    stderr = console(stderr=True)
    if stderr.is_terminal and host.leads and (running := len(host.running())):
        left = f"{plural(running, 'task')} may clean up for up to {GRACE.total_seconds():.0f} s"
        stderr.print(Text(f"stopping: {left}; Ctrl-C again stops at once", "yellow"))


def _host(
    setting: Setting, code: Code, workers: int, *, backfills: bool, command: str
) -> LeadingHost | AttachedHost:
    """A host that leads, or one that has the process do the work that leads already."""

    def lead() -> LeadingHost:
        without_pandas()
        size = at_most(workers, code.executor)
        triggers = "backfills" if backfills else False
        return LeadingHost(setting, workers=size, triggers=triggers, command=command)

    files = watched_files(code.location.code, Path(code.location.folder))
    wanted = WantedCode(
        location=code.location, declared=code.declared, fingerprint=lambda: fingerprint(files)
    )
    workspace = open_workspace(setting.address, must_exist=False)
    return open_leading_or_attached(wanted, workspace, lead, waiting=_tell_waiting)


def _tell_waiting(leader: LeaderAdvert) -> None:
    told = f"waiting for {described(leader)}, which leads this workspace and has other code"
    console(stderr=True).print(Text(told, "yellow"))


def who_works_in(target: Target) -> LeaderAdvert | None:
    """The process that leads a workspace, if one does."""
    address = Address.of(target.url, target.paths.tenant, target.paths.workspace)
    return open_workspace(address, must_exist=False).leader()


@contextmanager
def stopped_by_sigterm() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
