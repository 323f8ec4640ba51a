"""`servo dev`: leads a workspace during development.

It resumes interrupted runs, runs what is due and what other terminals request, and reloads every
location after an edit (see `servo.host.followed_code`). Code that cannot be imported does not stop
other locations.
"""

import os
import threading
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.text import Text

from servo.cli.commands.materialize import with_workers
from servo.cli.hosts import (
    AT_ONCE,
    stopped_by_sigterm,
    tell_stopping,
    telling_interrupted,
)
from servo.cli.options.code import as_dagster_option
from servo.cli.options.project import locations
from servo.cli.options.workspace import Where, at_a_workspace
from servo.cli.rendering.narrator import Narrator
from servo.cli.rendering.output import console, plural, warn
from servo.code.examine import Examined, examine
from servo.code.process_setup import ProcessSetup
from servo.code.sources import loaded_code
from servo.config import Settings
from servo.core.declared import Declared
from servo.errors import ServoError
from servo.host.followed_code import FollowedCode
from servo.host.leading import LeadingHost
from servo.host.location_code import refuse_shared
from servo.host.opening import lead_once_free
from servo.leader.leases.lease import HostedTriggers
from servo.sdk.definitions.executors import at_most
from servo.workspace.composition import system_clock
from servo.workspace.workspace import open_workspace

LOOK_EVERY = 0.2
INBOX_OF_A_FOLDER = timedelta(milliseconds=200)
INBOX_OF_A_BUCKET = timedelta(seconds=1)


@click.command("dev")
@click.argument("code", nargs=-1)
@with_workers
@as_dagster_option
@at_a_workspace
def dev(*, code: Sequence[str], where: Where, workers: int, as_dagster: bool) -> None:
    """Run CODE locally: execute what is requested or due, and reload the code after edits.

    CODE is one or more files, modules or code locations. Default: all of the project file.

    Start runs in another terminal with `servo materialize`. Ctrl-C stops this process; the next
    `servo dev` or `servo resume` continues the interrupted runs.
    """
    # An edit that keeps second and size would be hidden by what Python compiled before it.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    chosen = locations(code, as_dagster=as_dagster)
    setups = [where.setup(location, stays=True) for location in chosen]
    found = examine(chosen)
    pairs = list(zip(chosen, found, strict=True))
    refuse_shared({location.name: one.declared for location, one in pairs})
    every = INBOX_OF_A_BUCKET if where.address.is_shared else INBOX_OF_A_FOLDER

    def lead() -> LeadingHost:
        return LeadingHost(
            *setups,
            workers={location.name: at_most(workers, one.executor) for location, one in pairs},
            settings=Settings(inbox_every=every),
            triggers=HostedTriggers.ALL,
            command="dev",
            loaded={place.name: loaded_code(place, one.files, one.error) for place, one in pairs},
        )

    leading = lead_once_free(lead, open_workspace(where.address, must_exist=False), warn)
    with telling_interrupted(AT_ONCE), stopped_by_sigterm(), leading as session:
        at_work = Development(session, setups, found, workers=workers)
        try:
            at_work.begin()
            at_work.go_on()
        except KeyboardInterrupt:
            at_work.end()


class Development:
    """A permanent leader that follows the code of its locations."""

    def __init__(
        self,
        session: LeadingHost,
        setups: Sequence[ProcessSetup],
        found: Sequence[Examined],
        *,
        workers: int,
    ) -> None:
        self._session = session
        self._clock = system_clock()
        self._out = console()
        self._narrator = Narrator(self.say, session.has)
        self._codes = [
            FollowedCode(session, setup, one, self, workers=workers)
            for setup, one in zip(setups, found, strict=True)
        ]

    def say(self, what: Text | str) -> None:
        """Print a line, with the time."""
        self._out.print(Text.assemble((f"{self._clock.now():%H:%M:%S} ", "dim"), what))

    def loaded(self, location: str, before: Declared, after: Declared) -> None:
        """Print what an edit changed."""
        self.say(f"loaded {location}: {_difference(before, after)}")

    def refused(self, location: str, why: str, *, previous_stays: bool) -> None:
        """Print why code cannot be loaded, and what stays in use."""
        del location  # the reason names it
        self.say(Text(f"not loaded: {why}", "red"))
        if previous_stays:
            self.say("the previous version of the code stays in use")

    def workers_broken(self, location: str, why: str) -> None:
        """Print why workers cannot start."""
        self.say(Text(f"cannot start workers for {location}: {why}", "red"))

    def begin(self) -> None:
        """Print the locations, and start the triggers and interrupted runs."""
        for code in self._codes:
            code.begin(self._codes)
        for code in self._codes:
            has = _counted(code.declared) if code.is_loaded else "not loaded"
            self.say(f"{code.name}: {has}, {plural(code.workers, 'worker')}{self._how(code)}")
        self._session.questions.load_edits = self._load_edits
        _ = self._session.service.read(self._narrator.begin)
        self._narrator.tell()
        if self._session.triggers is not None:
            self._session.triggers.tell(self._narrator.hear)
            self._session.triggers.start()

    def _how(self, code: FollowedCode) -> str:
        """How to start runs, after the last location."""
        last = code is self._codes[-1]
        return (
            "; start runs with `servo materialize` in another terminal; Ctrl-C stops"
            if last
            else ""
        )

    def _load_edits(self, location: str) -> None:
        for code in self._codes:
            if code.name == location:
                code.wait_until_loaded()

    def go_on(self) -> None:
        """Run until it is stopped, or another process leads."""
        pause = threading.Event()
        while True:
            self._look_at_runs()
            for code in self._codes:
                code.look()
            pause.wait(LOOK_EVERY)

    def end(self) -> None:
        """Interrupt running tasks, and print how many runs are unfinished."""
        for code in self._codes:
            code.end()
        tell_stopping(self._session)
        self._session.pool.drain()
        left = len(self._session.open_runs())
        rest = (
            f"; {plural(left, 'run')} left: continue with `servo dev` or `servo resume`"
            if left
            else ""
        )
        self.say(f"stopped{rest}")

    def _look_at_runs(self) -> None:
        service = self._session.service
        if service.over and service.failure is not None:
            raise service.failure
        try:
            service.read(self._narrator.look)
            self._narrator.tell()
        except ServoError:
            return  # the store did not answer, and the leader takes over again
        service.wake()  # so that what others left in the inbox is found now


def _difference(before: Declared, after: Declared) -> str:
    """The number of assets, and which are new or removed."""
    old, new = ({made.asset_key for made in side.assets} for side in (before, after))
    parts = [_counted(after)]
    for word, keys in (("new", new - old), ("gone", old - new)):
        if keys:
            parts.append(f"{word}: {', '.join(sorted(keys))}")
    return "; ".join(parts)


def _counted(declared: Declared) -> str:
    several = (
        (declared.assets, "asset"),
        (declared.schedules, "schedule"),
        (declared.sensors, "sensor"),
    )
    return ", ".join(
        plural(len(found), word) for found, word in several if found or word == "asset"
    )
