"""Requests that wait in the inbox of a workspace for a leader to take them."""

from servo.operations.interface.roles import operation
from servo.workspace.workspace import Workspace


@operation
def count_queued(workspace: Workspace) -> int:
    """How many requests wait for a leader."""
    return sum(1 for _ in workspace.store.list_after(workspace.paths.inbox_prefix))
