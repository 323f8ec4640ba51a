"""Dead letters: requests that could not be applied and whose sender could not be told.

They stay for ever, with the verdict and with what was sent, byte for byte.
"""

from base64 import b64encode
from hashlib import sha256

import msgspec

from servo.core.events.originals import original_bytes
from servo.core.state.rows.system import DeadLetterRow
from servo.errors import Conflict, Corrupt, NotFound
from servo.operations.interface.listing import Listing, Page, page_of
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.workspace.workspace import Workspace

_SEE = "see `servo admin dead-letters list`"


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter and what was sent: as text if it is text, otherwise in base64."""

    letter: DeadLetterRow
    text: str | None = None
    base64: str | None = None


@operation
def list_dead_letters(
    workspace: Workspace, page: Page, *, as_of: AsOf | None = None
) -> Listing[DeadLetterRow]:
    """Requests that could not be applied, newest first."""
    rows = workspace.read(lambda snapshot: Lookup(snapshot).all(DeadLetterRow), as_of=as_of)
    rows.sort(key=lambda row: (row.seq, row.source, row.sha256), reverse=True)
    return page_of(rows, page, lambda row: f"{row.source}@{row.sha256}")


@operation
def get_dead_letter(workspace: Workspace, source: str, *, sha256: str = "") -> DeadLetter:
    """What came from a source and could not be applied, with what was sent.

    `sha256` is the beginning of its hash: needed only if several letters have the same source.
    """
    row, data = _read(workspace, source, sha256)
    try:
        return DeadLetter(letter=row, text=data.decode())
    except UnicodeDecodeError:
        return DeadLetter(letter=row, base64=b64encode(data).decode())


def _read(workspace: Workspace, source: str, digest: str) -> tuple[DeadLetterRow, bytes]:
    rows = workspace.read(
        lambda snapshot: Lookup(snapshot).all(DeadLetterRow, source=source), as_of=PRESENT
    )
    found = [row for row in rows if row.sha256.startswith(digest)]
    if not found:
        raise NotFound(f"there is no dead letter from {source}", remedy=_SEE)
    if len(found) > 1:
        raise Conflict(
            f"{len(found)} dead letters are from {source}",
            remedy="choose one by the beginning of its hash",
        )
    (row,) = found
    data = original_bytes(row.encoding, row.original)
    return row, _stored(workspace, row) if data is None else data


def _stored(workspace: Workspace, row: DeadLetterRow) -> bytes:
    key = workspace.paths.dead_letter(row.sha256)
    data = workspace.store.get(key).data
    if sha256(data).hexdigest() != row.sha256:
        raise Corrupt(
            f"{key} does not hold what was sent", remedy="restore this object from a backup"
        )
    return data
