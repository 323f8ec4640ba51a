"""Whether we still lead.

A successful append is proof for the moment it was issued. If there was none for a while, the newest
manifest decides: as long as it is ours, no process has taken over. Two things need it although
nothing is written: an answer that changes nothing, and a sign of life that is acknowledged from
memory; and one thing needs it although something was written: after a stall longer than half the
age at which garbage is collected, the slot just won may be one that a successor had filled and its
collector had emptied.
"""

from datetime import timedelta

from servo.errors import Fenced, Unavailable
from servo.leader.ports import Ports
from servo.leader.takeover import Leadership, is_owner
from servo.ledger.paths import Paths
from servo.projection.files.manifest_store import ManifestStore


class Ownership:
    """Whether we lead, as far as we know, and since when we know it."""

    def __init__(self, ports: Ports, paths: Paths, leadership: Leadership) -> None:
        self._clock = ports.clock
        self._manifests = ManifestStore(ports.store, paths)
        self.owner = leadership.owner
        self.confirmed_at = leadership.confirmed_at

    def wrote(self, issued: float, trust_for: timedelta) -> None:
        """An append that was issued at `issued` went through; is that enough to acknowledge it?

        `Unavailable` with `may_have_applied` if nobody can tell now: the entry is durable, and
        whether it counts shows when the newest manifest can be read again.
        """
        if timedelta(seconds=self._clock.monotonic() - self.confirmed_at) <= trust_for:
            self.confirmed_at = issued
            return
        try:
            self.confirm()
        except Unavailable as error:
            raise Unavailable(error.message, remedy=error.remedy, may_have_applied=True) from error

    def confirm_within(self, age: timedelta) -> None:
        """Look again unless we knew within the last `age`.

        Looking may itself take long (this process may be stopped in the middle of it), and what
        was seen before that is then too old again.
        """
        while timedelta(seconds=self._clock.monotonic() - self.confirmed_at) > age:
            self.confirm()

    def confirm(self) -> None:
        """Read the newest manifest; `Fenced` if it is not ours."""
        looked = self._clock.monotonic()
        if not is_owner(self._manifests.latest(), self.owner):
            raise Fenced(
                "another leader has claimed the workspace",
                remedy="nothing is lost; send the request to the new leader",
            )
        self.confirmed_at = looked
