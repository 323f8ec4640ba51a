"""Dead letters: what could not be applied, why, and what exactly was sent.

A letter is known by where it came from and by the hash of what was sent. So an object that is read
again after its verdict was recorded leaves nothing new, and two objects never share a letter.
"""

from hashlib import sha256

import msgspec

from servo.core.events.envelope import Batch, Encoding, Original, UnknownEvent, Verdict
from servo.core.fold.limits import FOLD_VERSION
from servo.core.state.rows.system import DeadLetterRow
from servo.core.state.state import State


def bury(state: State, batch: Batch, verdict: Verdict) -> None:
    """Record what a batch was refused for, once."""
    original = _original(batch)
    key = (original.source, original.sha256)
    if key in state.dead_letter:
        return
    events = batch.events
    state.dead_letter.put(
        key,
        DeadLetterRow(
            source=original.source,
            sha256=original.sha256,
            batch_id=batch.id,
            seq=state.seq,
            status=verdict.status,
            code=verdict.code,
            reason=verdict.reason,
            run_id=getattr(events[0], "run_id", None) if events else None,
            fold_version=FOLD_VERSION,
            size=original.size,
            encoding=original.encoding,
            original=original.data,
            recorded_at=state.ts,
            row_version=state.seq,
        ),
    )


def letter_key(batch: Batch) -> tuple[str, str]:
    """The key of the letter that a batch would leave."""
    original = _original(batch)
    return original.source, original.sha256


def find_letter(state: State, batch: Batch) -> DeadLetterRow | None:
    """The letter that was recorded when the same batch from the same place was refused.

    Its producer got no answer and does not send it again: it is read again because whoever recorded
    the verdict died before removing it. The verdict stays, whatever has changed since.
    """
    return state.dead_letter.rows.get(letter_key(batch)) if state.dead_letter.rows else None


def _original(batch: Batch) -> Original:
    """What was sent: the object of the producer, or the batch itself."""
    if batch.original is not None:
        return batch.original
    text = to_text(batch)
    data = text.encode()
    return Original(
        source=batch.id,
        sha256=sha256(data).hexdigest(),
        size=len(data),
        encoding=Encoding.TEXT,
        data=text,
    )


def to_text(batch: Batch) -> str:
    """A batch as JSON text, with events this version does not know as they came."""
    events = [
        msgspec.Raw(event.raw) if isinstance(event, UnknownEvent) else event
        for event in batch.events
    ]
    fields = {"id": batch.id, "key": batch.request_id, "actor": batch.actor}
    further = {name: getattr(batch, name) for name in ("correlation", "cause", "original")}
    said = {name: value for name, value in further.items() if value}
    whole = {**fields, "sent_at": batch.sent_at, **said, "events": events}
    return msgspec.json.encode(whole).decode()
