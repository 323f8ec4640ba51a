"""`servo dev`: a workspace at work while its code is being written.

Leads the workspace with warm workers until Ctrl-C, goes on with what was begun, makes what other
terminals ask for, and follows the code: when a file of the project changes, it is looked at in a
process of its own, and only if that can import it are the definitions deployed anew and the
workers replaced, each after what it is doing. Code that does not import changes nothing but a line
that says what is wrong and where.
"""

import os
import subprocess
import threading
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import click
from rich.text import Text

from servo.cli.code import as_dagster_option, find_code
from servo.cli.commands.materialize import with_workers
from servo.cli.hosts import AT_ONCE, stopped_by_sigterm, tell_stopping, telling_interrupted
from servo.cli.narrator import Narrator
from servo.cli.output import console, plural
from servo.cli.workspace import Where, at_a_workspace
from servo.code.examine import Examined, examine, fingerprint, finished, start_examining
from servo.code.setting import Setting
from servo.config import Settings
from servo.core.declared import Declared
from servo.errors import ServoError
from servo.host.leading import LeadingHost, setting_for
from servo.workspace.registry import tell_loaded
from servo.workspace.system import SystemClock

LOOK_EVERY = 0.2
INBOX_OF_A_FOLDER = timedelta(milliseconds=200)
INBOX_OF_A_BUCKET = timedelta(seconds=1)


@click.command("dev")
@click.argument("code", required=False)
@with_workers
@as_dagster_option
@at_a_workspace
def dev(*, code: str | None, where: Where, workers: int, as_dagster: bool) -> None:
    """Work on CODE, a file or a module: run what is asked for, and follow every edit.

    Ask for runs in another terminal with `servo materialize`. Ctrl-C ends it; what runs then is
    gone on with next time.
    """
    # An edit that keeps second and size would be hidden by what Python compiled before it.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    folder = Path.cwd()
    name = find_code(code, folder)
    setting = setting_for(
        name,
        folder,
        where.url,
        tenant=where.tenant,
        workspace=where.workspace,
        stays=True,
        as_dagster=as_dagster,
    )
    found = examine(name, folder, as_dagster=as_dagster)
    bucket = "://" in where.url and not where.url.startswith("file://")
    settings = Settings(inbox_every=INBOX_OF_A_BUCKET if bucket else INBOX_OF_A_FOLDER)
    with (
        telling_interrupted(AT_ONCE),
        stopped_by_sigterm(),
        LeadingHost(
            setting, workers=workers, settings=settings, triggers=True, command="dev"
        ) as session,
    ):
        at_work = Development(session, setting, found)
        try:
            at_work.begin(workers)
            at_work.go_on()
        except KeyboardInterrupt:
            at_work.end()


class Development:
    """A session that stays, and follows the code."""

    def __init__(self, session: LeadingHost, setting: Setting, found: Examined) -> None:
        self._session = session
        self._setting = setting
        self._clock = SystemClock()
        self._out = console()
        self._narrator = Narrator(self.say)
        self._declared = found.declared
        self._files = found.files
        self._seen = found.fingerprint
        self._looking: subprocess.Popen[bytes] | None = None
        self._told_broken: str | None = None

    def say(self, what: Text | str) -> None:
        """Print a line, with the time."""
        self._out.print(Text.assemble((f"{self._clock.now():%H:%M:%S} ", "dim"), what))

    def begin(self, workers: int) -> None:
        """Say what is at work, and go on with what was begun."""
        self._deploy(self._declared)
        self._tell_loaded()
        count = _counted(self._declared)
        told = f"{self._setting.location.code}: {count}, {plural(workers, 'worker')}"
        self.say(f"{told}; `servo materialize` in another terminal, Ctrl-C to end")
        self._narrator.begin(self._session.service.engine.state)
        if self._session.triggers is not None:
            self._session.triggers.tell(self._narrator.hear)
            self._session.triggers.start()

    def go_on(self) -> None:
        """Until somebody stops it, or somebody else leads."""
        pause = threading.Event()
        while True:
            self._look_at_runs()
            self._look_at_code()
            pause.wait(LOOK_EVERY)

    def end(self) -> None:
        """Interrupt what runs, and say what is left."""
        if self._looking is not None:
            self._looking.kill()
            _ = self._looking.communicate()
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
        broken = self._session.pool.of(self._setting.location.name).broken
        if broken != self._told_broken:
            self._told_broken = broken
            if broken is not None:
                self.say(Text(f"no new worker can start: {broken}", "red"))
        service.wake()  # so that what others left in the inbox is found now

    # --- the code -----------------------------------------------------------------------------

    def _look_at_code(self) -> None:
        if self._looking is None:
            seen = fingerprint(self._files)
            if seen == self._seen:
                return
            self._seen = seen
            setting = self._setting
            self._looking = start_examining(
                setting.location.code,
                Path(setting.location.folder),
                as_dagster=setting.location.as_dagster,
            )
        elif self._looking.poll() is not None:
            looked, self._looking = self._looking, None
            self._reload(finished(looked, self._setting.location.code))

    def _reload(self, found: Examined) -> None:
        if fingerprint(self._files) != self._seen:
            return  # changed again meanwhile, and looked at again next
        # Of broken code only a part was imported: what was watched before may mend it.
        files = found.files if not found.error else (*self._files, *found.files)
        self._files = tuple(sorted(set(files)))
        self._seen = fingerprint(self._files)
        if found.error:
            self.say(Text(f"not loaded: {found.error}", "red"))
            self.say("the code from before stays at work")
            return
        triggers = self._session.triggers
        try:
            with nullcontext() if triggers is None else triggers.renewing():
                self._deploy(found.declared)
        except ServoError as error:
            self.say(Text(f"not loaded: {error}", "red"))
            return
        self._session.pool.of(self._setting.location.name).renew()
        self._tell_loaded()
        self.say(
            f"loaded {self._setting.location.code}: {_difference(self._declared, found.declared)}"
        )
        self._declared = found.declared

    def _deploy(self, declared: Declared) -> None:
        self._session.deploy(self._setting.location.name, declared)

    def _tell_loaded(self) -> None:
        location = self._setting.location.name
        tell_loaded(self._setting.address.digest, location, self._seen)


def _difference(before: Declared, after: Declared) -> str:
    """How many assets there are, and which are new or gone."""
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
