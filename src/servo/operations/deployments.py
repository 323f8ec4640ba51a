"""Deploying the definitions of code to a workspace."""

from collections.abc import Sequence

from servo.core.declared import Declared
from servo.core.definitions import definitions_bytes
from servo.core.events.assets import DefinitionsDeployed
from servo.core.events.envelope import Event
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.roles import step
from servo.planning.deployment import changes
from servo.projection.read.time_travel import state_at
from servo.workspace.workspace import Workspace

EVENTS_PER_BATCH = 200


@step
def deploy_unless_led(workspace: Workspace, location: str, declared: Declared) -> None:
    """Deploy the definitions of code, unless a leader is running: it deploys its own code."""
    if workspace.leader() is not None:
        return
    state = state_at(workspace.store, workspace.paths, PRESENT).state
    submit_deployment(workspace, changes(state, location, declared), declared)


@step
def submit_deployment(workspace: Workspace, events: Sequence[Event], declared: Declared) -> None:
    """Submit the events of a deployment; the list of definitions that they name is stored first."""
    for event in events:
        if isinstance(event, DefinitionsDeployed):
            data = definitions_bytes(declared.assets)
            workspace.store.put(workspace.paths.plan(event.definitions_digest), data)
    for start in range(0, len(events), EVENTS_PER_BATCH):
        _ = workspace.submit(*events[start : start + EVENTS_PER_BATCH]).checked()
