"""The code of one location under a leader that follows edits.

When a file changes, the code is imported in a separate process. Only if that succeeds are the
definitions deployed again and the workers replaced, each after its current task. Code that cannot
be imported changes nothing; the listener gets the error with file and line.
"""

import subprocess
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple, Protocol

from servo.code.examine import Examined, fingerprint, finished, start_examining
from servo.code.process_setup import ProcessSetup
from servo.code.sources import loaded_code
from servo.core.declared import Declared
from servo.errors import Conflict, ServoError
from servo.host.leading import LeadingHost
from servo.host.location_code import refuse_shared
from servo.host.same_code import LOADED_WITHIN, not_loaded
from servo.sdk.definitions.executors import at_most
from servo.workspace.composition import system_clock


class ListensToCode(Protocol):
    """Listens to changes in the code of a location."""

    def loaded(self, location: str, before: Declared, after: Declared) -> None:
        """An edit was loaded."""
        ...

    def refused(self, location: str, why: str, *, previous_stays: bool) -> None:
        """The current code cannot be loaded; the previous version may stay in use."""
        ...

    def workers_broken(self, location: str, why: str) -> None:
        """No new worker can start."""
        ...


LOOK_EVERY = 0.05


class _Refused(NamedTuple):
    """The fingerprint of a version that cannot be loaded, and the reason; empty if it can be.

    One value, so that other threads never see the reason of one version with another version.
    """

    version: str = ""
    why: str = ""


class FollowedCode:
    """A code location of a session, watched and reloaded by itself."""

    def __init__(
        self,
        session: LeadingHost,
        setup: ProcessSetup,
        found: Examined,
        listener: ListensToCode,
        *,
        workers: int,
    ) -> None:
        self._session = session
        self._setup = setup
        self._location = setup.location
        self._listener = listener
        self._clock = system_clock()
        self._error = found.error
        self._declared = found.declared
        self._most_workers = workers
        self._others: Sequence[FollowedCode] = ()
        self._files = found.files
        self._seen = found.fingerprint
        self._looking: subprocess.Popen[bytes] | None = None
        self._told_broken: str | None = None
        self._loaded = ""
        self._refused = _Refused(found.fingerprint, found.error)

    @property
    def name(self) -> str:
        """The name of the location."""
        return self._location.name

    @property
    def workers(self) -> int:
        """How many workers it has: as many as were asked for, or fewer if its executor says so."""
        return self._session.pool.of(self.name).size

    @property
    def is_loaded(self) -> bool:
        """Whether some version of it is in use."""
        return not self._error

    def begin(self, beside: Sequence["FollowedCode"]) -> None:
        """Deploy its definitions; if the code is broken, report it and wait for edits."""
        self._others = [other for other in beside if other is not self]
        if self._error:
            self._refuse(self._error)
            return
        self._session.deploy(self.name, self._declared)
        self._loaded = self._seen

    def look(self) -> None:
        """Load an edit if there is one, and report if workers can no longer start."""
        self._look_at_workers()
        if self._looking is None:
            seen = fingerprint(self._files)
            if seen == self._seen:
                return
            self._seen = seen
            self._looking = start_examining(self._location)
        elif self._looking.poll() is not None:
            looked, self._looking = self._looking, None
            self._reload(finished(looked, self._location))

    def end(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.kill()
            _ = self._looking.communicate()

    def _look_at_workers(self) -> None:
        broken = self._session.pool.of(self.name).broken
        if broken != self._told_broken:
            self._told_broken = broken
            if broken is not None and not self._error:
                self._listener.workers_broken(self.name, broken)

    def _reload(self, found: Examined) -> None:
        if fingerprint(self._files) != self._seen:
            return  # changed again meanwhile, and looked at again next
        # Of broken code only a part was imported: what was watched before may mend it.
        files = found.files if not found.error else (*self._files, *found.files)
        self._files = tuple(sorted(set(files)))
        self._seen = fingerprint(self._files)
        if found.error:
            self._refuse(found.error)
            return
        triggers = self._session.triggers
        try:
            with nullcontext() if triggers is None else triggers.renewing(self.name):
                beside = {other.name: other.declared for other in self._others}
                refuse_shared({**beside, self.name: found.declared})
                self._session.deploy(self.name, found.declared)
        except ServoError as error:
            self._refuse(str(error))
            return
        self._session.pool.of(self.name).renew(at_most(self._most_workers, found.executor))
        self._error, self._refused = "", _Refused()
        self._loaded = self._seen
        self._tell_loaded()
        before, self._declared = self._declared, found.declared
        self._listener.loaded(self.name, before, found.declared)

    def _refuse(self, why: str) -> None:
        self._listener.refused(self.name, why, previous_stays=bool(self._loaded))
        self._refused = _Refused(self._seen, why)
        self._tell_loaded()

    def _tell_loaded(self) -> None:
        """Tell other processes which version of the code was looked at, and what came of it."""
        told = loaded_code(self._location, self._files, self._refused.why)
        self._session.tell_loaded(self.name, told)

    @property
    def declared(self) -> Declared:
        """What it declares now."""
        return self._declared

    def wait_until_loaded(self) -> None:
        """Wait until the current files are loaded; `Invalid` if they cannot be imported.

        Called for other processes, on threads of their own.
        """
        until = self._clock.monotonic() + LOADED_WITHIN
        pause = threading.Event()
        while (current := fingerprint(self._files)) != self._loaded:
            refused = self._refused
            if refused.version == current:
                raise not_loaded(self.name, refused.why)
            if self._clock.monotonic() > until:
                raise Conflict(f"{self.name} is still being loaded", remedy="try again in a moment")
            _ = pause.wait(LOOK_EVERY)
