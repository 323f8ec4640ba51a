"""Having an event carried out by a workspace, and knowing that it was."""

from collections.abc import Callable

from servo.cli.hosts import Code
from servo.cli.workspace import Where
from servo.core.events.envelope import Event
from servo.projection.read.reader import Snapshot
from servo.workspace.composition import open_world
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import try_to_lead
from servo.workspace.origins import Cause
from servo.workspace.run_requests import Requests
from servo.workspace.workspace import open_workspace


def tell_workspace(
    where: Where,
    kind: str,
    event: Event,
    is_done: Callable[[Snapshot], bool],
    *,
    after: Cause | None = None,
) -> None:
    """Have an event carried out, because of another; `Conflict` if it is refused."""
    del kind, is_done
    workspace = open_workspace(where.address, must_exist=False)
    _ = workspace.submit(event, cause=after).checked()


def deploy_now(where: Where, code: Code) -> None:
    """Tell a workspace what the code declares, unless a process that leads it does."""
    address, world = where.address, open_world(where.address.store)
    led = try_to_lead(address, world, leader=Leader(command="deploy"))
    if led is not None:
        with led:
            Requests(led.service, world, address.paths).deploy(code.name, code.declared)
