"""Backfills that a command creates and waits for."""

from servo.cli.hosts import Host, interrupt, open_host
from servo.cli.options.workspace import Where
from servo.cli.rendering.backfill_display import exit_code_of, follow, tell_backfill
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.receipts import QUEUED, tell_receipt
from servo.code.backfills.view import Backfill
from servo.core.events.backfills import BackfillCreated
from servo.host.location_code import LocationCode
from servo.leader.leases.lease import HostedTriggers
from servo.operations.backfill_requests import BackfillBegun, begin_backfill
from servo.operations.backfills import finished
from servo.workspace.workspace import Workspace


def begin_and_wait(
    event: BackfillCreated,
    code: LocationCode,
    where: Where,
    workers: int,
    *,
    json_: bool,
) -> int:
    """Create a backfill and wait until it has finished; the exit code."""
    with open_host(code, where, workers, backfills=True) as host:
        _ = begin_backfill(host.workspace, event)
        return tell_end(follow_here(host, event.backfill_id, json_=json_), json_=json_)


def tell_begun(workspace: Workspace, found: BackfillBegun, *, json_: bool) -> int:
    """Print that a backfill was created, and how to follow it; the exit code."""
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    size = f"{plural(found.partitions, 'partition')} in {plural(found.runs, 'run')}"
    code = tell_receipt(found.receipt, f"Created {found.backfill_id}: {size}.")
    tell_who_works(workspace, found.backfill_id)
    return code


def tell_who_works(workspace: Workspace, name: str) -> None:
    """Print how to follow a backfill, or how to start a leader if there is none."""
    follow_it = f"`servo backfill wait {name}`"
    if workspace.leader() is not None:
        console().print(f"Follow it with {follow_it}.")
    else:
        console().print(f"No leader is running. Start the work with {follow_it} or `servo dev`.")


def follow_here(host: Host, name: str, *, json_: bool) -> Backfill:
    """Follow a backfill to its end, here or in another process."""
    try:
        return follow(lambda: host.backfill(name), host.check, shown=not json_)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_interrupted(host, name)) from None


def _interrupted(host: Host, name: str) -> str:
    """Stop following a backfill; what becomes of it."""
    if host.leads:
        return f"{interrupt(host)}, or `servo backfill wait {name}` for this backfill alone"
    if host.hosts(HostedTriggers.BACKFILLS):
        stop = f"stop it with `servo backfill pause {name}` or `cancel`"
        return f"interrupted; {name} continues: {stop}"
    return f"interrupted; {name} has not finished: continue with `servo backfill wait {name}`"


def tell_end(found: Backfill, *, json_: bool) -> int:
    """Print the outcome of a backfill; the exit code of the command that waited for it."""
    if json_:
        emit_json(finished(found))
    else:
        tell_backfill(found)
    return exit_code_of(found.row)
