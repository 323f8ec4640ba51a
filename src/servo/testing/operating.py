"""Workspaces in memory for tests of operations: filled by running assets here, or by a story."""

from servo.ports.world import World
from servo.testing.clock import SeededEntropy
from servo.testing.workspaces import StoredStory
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace


def workspace_of(instance: ServoInstance, *, actor: str = "user:ada@laptop") -> Workspace:
    """The workspace of an ephemeral instance, as operations see it."""
    address = Address("memory://test", instance.paths.tenant, instance.paths.workspace)
    return Workspace(address, instance.world, AnyChannel(address, instance.world), actor=actor)


def workspace_told(story: StoredStory) -> Workspace:
    """The workspace that a story tells, for reading: it shows what the story has published."""
    address = Address("memory://story", story.paths.tenant, story.paths.workspace)
    world = World(story.store, story.clock, SeededEntropy())
    return Workspace(address, world, AnyChannel(address, world))
