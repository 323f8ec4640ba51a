"""A workspace in memory for tests of operations, filled by running assets in this process."""

from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace


def workspace_of(instance: ServoInstance, *, actor: str = "user:ada@laptop") -> Workspace:
    """The workspace of an ephemeral instance, as operations see it."""
    address = Address("memory://test", instance.paths.tenant, instance.paths.workspace)
    return Workspace(address, instance.world, AnyChannel(address, instance.world), actor=actor)
