"""Telling a workspace what code declares."""

from servo.core.declared import Declared
from servo.core.definitions import definitions_bytes
from servo.core.events.assets import DefinitionsDeployed
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.roles import step
from servo.planning.deployment import changes
from servo.projection.read.time_travel import state_at
from servo.workspace.run_requests import EVENTS_PER_BATCH
from servo.workspace.workspace import Workspace


@step
def deploy_unless_led(workspace: Workspace, location: str, declared: Declared) -> None:
    """Deploy what code declares, unless a leader is there, which deploys its own code."""
    if workspace.leader() is not None:
        return
    state = state_at(workspace.store, workspace.paths, PRESENT).state
    found = changes(state, location, declared)
    for event in found:
        if isinstance(event, DefinitionsDeployed):
            data = definitions_bytes(declared.assets)
            workspace.store.put(workspace.paths.plan(event.definitions_digest), data)
    for start in range(0, len(found), EVENTS_PER_BATCH):
        _ = workspace.submit(*found[start : start + EVENTS_PER_BATCH]).checked()
