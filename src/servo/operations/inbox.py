"""Requests in the inbox of a workspace that wait for a leader."""

from servo.operations.interface.roles import operation
from servo.workspace.workspace import Workspace


@operation
def count_queued(workspace: Workspace) -> int:
    """How many requests wait for a leader."""
    return sum(1 for _ in workspace.store.list_after(workspace.paths.inbox_prefix))
