"""How what an instance changes gets into the ledger: as every request does.

Through the leader if this process has one, and otherwise the best way there is at that moment. What
waits in the inbox for a leader that cannot be reached is durable, and counts as done here.
"""

from collections.abc import Generator
from contextlib import contextmanager

from servo.core.events.envelope import Event
from servo.leader.service import Service
from servo.ports.world import World
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel, LeaderInThisProcess
from servo.workspace.workspace import Workspace


class Changes:
    """What is changed in one workspace."""

    def __init__(self, world: World, address: Address) -> None:
        self._world = world
        self._address = address
        self._service: Service | None = None

    @contextmanager
    def through(self, service: Service) -> Generator[None]:
        """Have a leader of this process take what is changed meanwhile."""
        before, self._service = self._service, service
        try:
            yield
        finally:
            self._service = before

    def commit(self, *events: Event) -> None:
        """Have events carried out together; `Conflict` if the workspace refuses them."""
        if not events:
            return
        channel = (
            AnyChannel(self._address, self._world)
            if self._service is None
            else LeaderInThisProcess(self._service)
        )
        _ = Workspace(self._address, self._world, channel).submit(*events).checked()
