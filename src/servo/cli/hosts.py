"""Who makes what a command asks for: this process, or one that is at work already."""

import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from rich.text import Text

from servo.cli.output import console, plural
from servo.cli.project import one_location
from servo.cli.workspace import Target, Where
from servo.code.examine import fingerprint, watched_files
from servo.code.loader import load_location
from servo.code.setting import CodeLocation, Setting
from servo.core.declared import Declared
from servo.host.attached import AttachedHost
from servo.host.leading import LeadingHost
from servo.projection.files.arrow import without_pandas
from servo.sdk.definitions.executors import ExecutorDefinition, at_most
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.workers.local_pool.pool import GRACE
from servo.workspace.address import Address
from servo.workspace.registry import Member, at_work, registry_folder

Host = LeadingHost | AttachedHost

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
    location = one_location(given, as_dagster=as_dagster)
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
            host: Host = opened.enter_context(_host(setting, code, workers, backfills))
            host.deploy(code.name, code.declared)
            if isinstance(host, LeadingHost) and host.triggers is not None:
                host.triggers.start()
        with telling_interrupted(AT_ONCE), opened.pop_all():
            try:
                yield host
            except KeyboardInterrupt as stopped:
                raise KeyboardInterrupt(str(stopped) or interrupt(host)) from None


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
    if stderr.is_terminal and isinstance(host, LeadingHost) and (running := len(host.running())):
        left = f"{plural(running, 'task')} may clean up for up to {GRACE.total_seconds():.0f} s"
        stderr.print(Text(f"stopping: {left}; Ctrl-C again stops at once", "yellow"))


def _host(setting: Setting, code: Code, workers: int, backfills: bool) -> Host:
    busy = at_work(registry_folder(), str(setting.address))
    if busy is None:
        without_pandas()
        size = at_most(workers, code.executor)
        return LeadingHost(setting, workers=size, triggers="backfills" if backfills else False)
    files = watched_files(code.location.code, Path(code.location.folder))
    return AttachedHost(setting, busy, fingerprint(files))


def who_works_in(target: Target) -> Member | None:
    """The process of this machine that is at work in a workspace, if one is."""
    address = Address.of(target.url, target.paths.tenant, target.paths.workspace)
    return at_work(registry_folder(), str(address))


@contextmanager
def stopped_by_sigterm() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
