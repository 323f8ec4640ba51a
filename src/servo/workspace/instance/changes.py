"""How changes made through an instance reach the ledger: like every request.

They go through the leader of this process if there is one, and otherwise through the best channel
at that moment. What waits in the inbox for an unreachable leader is durable, and counts as done.
"""

from collections.abc import Generator
from contextlib import contextmanager

from servo.core.events.envelope import Event
from servo.leader.service import Service
from servo.ports.world import World
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel, LeaderInThisProcess
from servo.workspace.redacted_events import without_secrets
from servo.workspace.workspace import Workspace


class Changes:
    """What is changed in one workspace."""

    def __init__(self, world: World, address: Address) -> None:
        self._world = world
        self._address = address
        self._service: Service | None = None

    @contextmanager
    def through(self, service: Service) -> Generator[None]:
        """Send changes to a leader in this process for as long as the context is open."""
        before, self._service = self._service, service
        try:
            yield
        finally:
            self._service = before

    def commit(self, *events: Event) -> None:
        """Submit events as one batch, redacted; `Conflict` if the workspace refuses them."""
        if not events:
            return
        channel = (
            AnyChannel(self._address, self._world)
            if self._service is None
            else LeaderInThisProcess(self._service)
        )
        _ = (
            Workspace(self._address, self._world, channel)
            .submit(*without_secrets(events))
            .checked()
        )
