"""Requests left in the store for whoever leads the workspace."""

from servo.cli.workspace import Target
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch, Event
from servo.core.ids import ulid
from servo.runtime.system import SystemEntropy


def leave(target: Target, kind: str, *events: Event) -> None:
    """Leave events in the inbox; they are carried out together, now or when somebody leads."""
    now = target.clock.now()
    name = ulid(now, SystemEntropy().token_bytes(10))
    batch = Batch(id=f"{kind}-{name}", events=events, sent_at=now)
    target.store.create(target.paths.inbox_item(name), encode_batch(batch))
