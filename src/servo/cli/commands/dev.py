"""`servo dev`: a workspace at work while its code is being written.

Leads the workspace with warm workers until Ctrl-C, goes on with what was begun, makes what other
terminals ask for, and follows the code of every location by itself (see
`servo.cli.followed_code`): an edit reloads one, and one that does not import stops no other.
"""

import os
import threading
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.text import Text

from servo.cli.command_code import refuse_shared
from servo.cli.commands.materialize import with_workers
from servo.cli.followed_code import FollowedCode
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
from servo.cli.rendering.output import console, plural
from servo.code.examine import Examined, examine
from servo.code.setting import Setting
from servo.config import Settings
from servo.errors import ServoError
from servo.host.leading import LeadingHost
from servo.workspace.system import SystemClock

LOOK_EVERY = 0.2
INBOX_OF_A_FOLDER = timedelta(milliseconds=200)
INBOX_OF_A_BUCKET = timedelta(seconds=1)


@click.command("dev")
@click.argument("code", nargs=-1)
@with_workers
@as_dagster_option
@at_a_workspace
def dev(*, code: Sequence[str], where: Where, workers: int, as_dagster: bool) -> None:
    """Work on CODE: run what is asked for, and follow every edit.

    CODE is one or more files, modules or code locations; without it, all of the project file.

    Ask for runs in another terminal with `servo materialize`. Ctrl-C ends it; what runs then is
    gone on with next time.
    """
    # An edit that keeps second and size would be hidden by what Python compiled before it.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    chosen = locations(code, as_dagster=as_dagster)
    settings = [where.setting(location, stays=True) for location in chosen]
    found = examine(chosen)
    pairs = zip(chosen, found, strict=True)
    refuse_shared({location.name: one.declared for location, one in pairs})
    every = INBOX_OF_A_BUCKET if where.address.is_shared else INBOX_OF_A_FOLDER
    leading = LeadingHost(
        *settings,
        workers=workers,
        settings=Settings(inbox_every=every),
        triggers=True,
        command="dev",
    )
    with telling_interrupted(AT_ONCE), stopped_by_sigterm(), leading as session:
        at_work = Development(session, settings, found)
        try:
            at_work.begin(workers)
            at_work.go_on()
        except KeyboardInterrupt:
            at_work.end()


class Development:
    """A session that stays, and follows the code of its locations."""

    def __init__(
        self, session: LeadingHost, settings: Sequence[Setting], found: Sequence[Examined]
    ) -> None:
        self._session = session
        self._clock = SystemClock()
        self._out = console()
        self._narrator = Narrator(self.say, session.has)
        self._codes = [
            FollowedCode(session, setting, one, self.say)
            for setting, one in zip(settings, found, strict=True)
        ]

    def say(self, what: Text | str) -> None:
        """Print a line, with the time."""
        self._out.print(Text.assemble((f"{self._clock.now():%H:%M:%S} ", "dim"), what))

    def begin(self, workers: int) -> None:
        """Say what is at work, and go on with what was begun."""
        for code in self._codes:
            code.begin(self._codes)
        for code in self._codes:
            self.say(f"{code.name}: {code.counted}, {plural(workers, 'worker')}{self._how(code)}")
        self._session.questions.load_edits = self._load_edits
        self._narrator.begin(self._session.service.engine.state)
        if self._session.triggers is not None:
            self._session.triggers.tell(self._narrator.hear)
            self._session.triggers.start()

    def _how(self, code: FollowedCode) -> str:
        """How to go on, once."""
        last = code is self._codes[-1]
        return "; `servo materialize` in another terminal, Ctrl-C to end" if last else ""

    def _load_edits(self, location: str) -> None:
        for code in self._codes:
            if code.name == location:
                code.wait_until_loaded()

    def go_on(self) -> None:
        """Until somebody stops it, or somebody else leads."""
        pause = threading.Event()
        while True:
            self._look_at_runs()
            for code in self._codes:
                code.look()
            pause.wait(LOOK_EVERY)

    def end(self) -> None:
        """Interrupt what runs, and say what is left."""
        for code in self._codes:
            code.end()
        tell_stopping(self._session)
        self._session.pool.drain()
        left = len(self._session.open_runs())
        rest = (
            f"; {plural(left, 'run')} not ended: `servo dev` or `servo resume` goes on"
            if left
            else ""
        )
        self.say(f"ended{rest}")

    def _look_at_runs(self) -> None:
        service = self._session.service
        if service.over and service.failure is not None:
            raise service.failure
        try:
            self._narrator.look(service.engine.state)
        except ServoError:
            return  # the store did not answer, and the leader takes over again
        service.wake()  # so that what others left in the inbox is found now
