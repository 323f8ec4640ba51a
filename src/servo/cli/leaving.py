"""Requests left in the store for whoever leads the workspace."""

from servo.cli.hosts import who_works_in
from servo.cli.output import console
from servo.cli.workspace import Target, Where
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch, Event
from servo.core.ids import ulid
from servo.errors import Conflict, NotFound
from servo.workspace.identity import this_process
from servo.workspace.system import SystemEntropy


def leave(target: Target, kind: str, *events: Event) -> None:
    """Leave events in the inbox; they are carried out together, now or when somebody leads."""
    now = target.clock.now()
    name = ulid(now, SystemEntropy().token_bytes(10))
    batch = Batch(id=f"{kind}-{name}", events=events, actor=this_process(), sent_at=now)
    target.store.create(target.paths.inbox_item(name), encode_batch(batch))


def tell_left(target: Target, what: str, done: str) -> None:
    """Say what will become of something, and by whom; what to do if that is nobody."""
    # Of a store that others reach nobody here knows who leads.
    local = "://" not in target.url.removeprefix("file://")
    nobody = local and who_works_in(target) is None
    then = "; nobody does now: `servo dev` does it, or `servo resume`" if nobody else ""
    console().print(f"{what} will be {done} by whoever leads the workspace{then}")


def count_left(where: Where) -> int:
    """How many requests wait for somebody to lead; none where there is no workspace yet."""
    try:
        target = where.open()
    except NotFound:
        return 0
    return sum(1 for _ in target.store.list_after(target.paths.inbox_prefix))


def refuse_paused(name: str, *, paused: bool) -> None:
    """`Conflict` if something is to be paused that is paused."""
    if paused:
        raise Conflict(f"{name} is paused already", remedy="leave it as it is")


def refuse_active(name: str, *, active: bool) -> None:
    """`Conflict` if something is to be resumed that was not stopped."""
    if active:
        raise Conflict(f"{name} is not paused", remedy="leave it as it is")
