"""Having a backfill begun, followed to its end, paused, resumed and cancelled."""

from servo.cli.backfill_display import exit_code_of, follow, tell_backfill
from servo.cli.backfill_rows import backfill_named, find_backfill, now_in, shown_key
from servo.cli.hosts import Code, Host, interrupt, open_host, who_works_in
from servo.cli.output import console, emit_json, plural
from servo.cli.telling import tell_workspace
from servo.cli.workspace import Target, Where
from servo.code.backfills.view import Backfill
from servo.core.events.backfills import BackfillCreated, BackfillState, BackfillStateChanged
from servo.core.state.rows.automation import BackfillRow
from servo.errors import Conflict, NotFound, Unavailable
from servo.host.attached import AttachedHost
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader, Snapshot
from servo.workspace.composition import open_world
from servo.workspace.identity import this_process


def begin(  # noqa: PLR0913 - what a backfill begins with
    event: BackfillCreated,
    code: Code | None,
    where: Where,
    workers: int,
    *,
    wait_: bool,
    json_: bool,
    again: BackfillRow | None = None,
) -> int:
    """Have a backfill begin, and perhaps wait for its end; `again` is the one that it repeats."""
    name = event.backfill_id
    if not wait_ or code is None:
        _refuse_other(where, event)
        tell_workspace(where, "backfill", event, lambda found: _there(found, name), after=again)
        if json_:
            emit_json({"backfill_id": name, "partitions": event.total_partitions})
        else:
            chunks = plural(-(-event.total_partitions // event.chunk_size), "run")
            told = f"{name}: {plural(event.total_partitions, 'partition')} in {chunks}"
            console().print(f"{told}{by_whom(where, name)}")
        return 0
    with open_host(code, where, workers, backfills=True) as host:
        _refuse_other(where, event)
        if isinstance(host, AttachedHost):
            tell_workspace(where, "backfill", event, lambda found: _there(found, name), after=again)
        else:
            _ = host.submit((event,), cause=again)
        return tell_end(follow_here(host, name, json_=json_), json_=json_)


def _refuse_other(where: Where, event: BackfillCreated) -> None:
    """`Conflict` if the id of the request was used for something else."""
    snapshot = now_in(where)
    row = None if snapshot is None else backfill_named(snapshot, event.backfill_id)
    if row is not None and row.request_fingerprint != event.request_fingerprint:
        raise Conflict(
            f"the request {event.client_request_id!r} has made {row.backfill_id}, "
            "and asked for something else",
            remedy="use another --request-id, or none",
        )


def _there(snapshot: Snapshot, name: str) -> bool:
    return backfill_named(snapshot, name) is not None


def by_whom(where: Where, name: str) -> str:
    """Who does the work, and how to follow it, to be said behind something else."""
    target = where.open()
    if who_works_in(target) is not None:
        return f"; follow it with `servo backfill wait {name}`"
    return f"; nobody is at work here: `servo backfill wait {name}` or `servo dev` does it"


def follow_here(host: Host, name: str, *, json_: bool) -> Backfill:
    """Follow a backfill that this process works at."""
    try:
        return follow(lambda: host.backfill(name), host.check, shown=not json_)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{interrupt(host)}, or `servo backfill wait {name}` for this backfill alone"
        ) from None


def watch(where: Where, name: str, *, json_: bool) -> Backfill:
    """Follow a backfill that another process works at."""
    target = where.open()
    reader = Reader(target.store, target.paths)

    def check() -> None:
        if who_works_in(target) is None:
            row = find_backfill(present(where), name).row
            if row.finished_at is None:
                raise Unavailable(
                    "the process that did the work has ended",
                    remedy=f"`servo backfill wait {name}` goes on with it",
                )

    try:
        return follow(lambda: reader.read(lambda s: find_backfill(s, name)), check, shown=not json_)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {name} goes on: `servo backfill pause {name}` or `cancel` stops it"
        ) from None


def tell_end(found: Backfill, *, json_: bool) -> int:
    """Say what became of a backfill; the exit code of the command that waited for it."""
    if json_:
        failed = [shown_key(key) for key in found.failed()]
        emit_json({"backfill": found.row, "failed": failed})
    else:
        tell_backfill(found)
    return exit_code_of(found.row)


def change(where: Where, name: str, to: BackfillState) -> BackfillRow:
    """Have a backfill paused, resumed or cancelled; how it stands then."""
    row = find_backfill(present(where), name).row
    _check_change(row, to)
    event = BackfillStateChanged(
        backfill_id=row.backfill_id,
        to_state=to,
        expected_state_version=row.state_version,
        changed_by=this_process(),
    )

    def done(snapshot: Snapshot) -> bool:
        return find_backfill(snapshot, row.backfill_id).row.state_version > row.state_version

    tell_workspace(where, "backfill", event, done)
    return find_backfill(present(where), row.backfill_id).row


def _check_change(row: BackfillRow, to: BackfillState) -> None:
    wrong = {
        BackfillState.PAUSED: row.state is not BackfillState.RUNNING,
        BackfillState.RUNNING: row.state is not BackfillState.PAUSED,
        BackfillState.CANCELLING: row.state not in (BackfillState.RUNNING, BackfillState.PAUSED),
    }
    if wrong[to]:
        raise Conflict(f"{row.backfill_id} is {row.state.value}", remedy="leave it as it is")


def target_of(where: Where) -> Target:
    """The workspace, which need not exist yet."""
    world, paths = open_world(where.url), Paths(where.tenant, where.workspace)
    return Target(url=where.url, store=world.store, paths=paths, clock=world.clock)


def present(where: Where) -> Snapshot:
    """How a workspace stands now; `NotFound` if nothing was ever written there."""
    snapshot = now_in(where)
    if snapshot is None:
        raise NotFound("nothing was ever made here", remedy="name the workspace with --store")
    return snapshot
