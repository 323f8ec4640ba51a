"""Having an event carried out by a workspace, and knowing that it was.

A process that leads the workspace takes it from the inbox; whether it did is seen in what it
publishes. If none does, and none can be elsewhere, this process leads for the moment that it takes.
"""

import threading
from collections.abc import Callable

from servo.cli.hosts import Code, who_works_in
from servo.cli.workspace import Target, Where
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Event
from servo.core.ids import ulid
from servo.core.state.rows.system import DeadLetterRow
from servo.errors import Conflict, Unavailable
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader, Snapshot
from servo.workspace.composition import open_world
from servo.workspace.origins import Cause, batch_from, origin_of
from servo.workspace.run_requests import Requests
from servo.workspace.system import SystemClock, SystemEntropy

LOOK_EVERY = 0.1
CARRIED_OUT_WITHIN = 20.0
REMEDY = "see how it stands with `servo backfill show`, and ask again"


def tell_workspace(
    where: Where,
    kind: str,
    event: Event,
    is_done: Callable[[Snapshot], bool],
    *,
    after: Cause | None = None,
) -> None:
    """Have an event carried out, because of another; `Conflict` if it is refused."""
    paths = Paths(where.tenant, where.workspace)
    world = open_world(where.url)
    now = world.clock.now()
    name = ulid(now, SystemEntropy().token_bytes(10))
    origin = origin_of(world.identity, after)
    batch = batch_from(f"{kind}-{name}", (event,), origin, sent_at=now)
    target = Target(url=where.url, store=world.store, paths=paths, clock=world.clock)
    if who_works_in(target) is None and not _is_shared(where):
        with Service(world, paths) as service:
            answer = service.commit(batch)
        if not answer.applied:
            raise Conflict(f"the workspace refused: {answer.reason}", remedy=REMEDY)
        return
    world.store.create(paths.inbox_item(name), encode_batch(batch))
    _follow(Reader(world.store, paths), batch.id, is_done)


def deploy_now(where: Where, code: Code) -> None:
    """Tell a workspace what the code declares, unless a process at work there does."""
    world, paths = open_world(where.url), Paths(where.tenant, where.workspace)
    target = Target(url=where.url, store=world.store, paths=paths, clock=world.clock)
    if who_works_in(target) is None and not _is_shared(where):
        with Service(world, paths) as service:
            Requests(service, world, paths).deploy(code.name, code.declared)


def _is_shared(where: Where) -> bool:
    """Whether a process of another machine may lead, which nobody here would know of."""
    return "://" in where.url and not where.url.startswith("file://")


def _follow(reader: Reader, batch: str, is_done: Callable[[Snapshot], bool]) -> None:
    clock, pause = SystemClock(), threading.Event()
    until = clock.monotonic() + CARRIED_OUT_WITHIN
    while not reader.read(is_done):
        rows = reader.read(lambda snapshot: snapshot.rows("dead_letter"))
        for row in rows:
            if isinstance(row, DeadLetterRow) and row.batch_id == batch:
                raise Conflict(f"the workspace refused: {row.reason}", remedy=REMEDY)
        if clock.monotonic() > until:
            raise Unavailable(
                f"nobody who leads has taken the request within {CARRIED_OUT_WITHIN:g} s",
                remedy="it stays in the inbox and is carried out by whoever leads next",
            )
        pause.wait(LOOK_EVERY)
