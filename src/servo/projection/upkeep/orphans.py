"""Plans and lists that nothing in the ledger names.

What an event names by digest is a part of the ledger: a fold from the beginning needs it. So an
object under `plans/` is garbage only if its digest stands nowhere in the ledger, which is the case
after a request that was stored and never sequenced. Whether it does is looked up in the bytes of
every entry, whatever the event that holds it: a kind of event that this version does not know
protects its lists too. That reads the whole ledger, so an operator asks for it and no leader does.

Somebody may be about to name an object that is already there, because plans repeat. Whoever stores
one writes it again even then, so that it is young; and what is to be deleted is looked at once
more directly before.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from servo.errors import Corrupt, NotFound
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import ObjectMeta, ObjectStore

# Every place of a longer run of digits counts: to protect too much costs nothing.
_DIGEST = re.compile(rb"(?=([0-9a-f]{64}))")


def orphaned_plans(
    store: ObjectStore, paths: Paths, *, older_than: datetime, through: int
) -> list[ObjectMeta]:
    """Objects under `plans/` written before `older_than` that no entry up to `through` names.

    `through` must be the end of the ledger or later; `Corrupt` if an entry before it is missing.
    """
    found = {
        meta.key.rpartition("/")[2].encode(): meta
        for meta in store.list_after(paths.plans_prefix)
        if meta.modified <= older_than
    }
    if found:
        for data in _everything_said(store, paths, through):
            for digest in _DIGEST.findall(data):
                _ = found.pop(digest, None)
    return list(found.values())


def delete_plans(store: ObjectStore, metas: list[ObjectMeta], *, older_than: datetime) -> int:
    """Delete those of `metas` that nobody has written again; how many."""
    deleted = 0
    for meta in metas:
        again = store.list_after(meta.key, limit=1)
        if again and again[0].key == meta.key and again[0].modified <= older_than:
            store.delete(meta.key)
            deleted += 1
    return deleted


def _everything_said(store: ObjectStore, paths: Paths, through: int) -> Iterator[bytes]:
    """What waits to be sequenced, and then every entry: an item of the inbox becomes one."""
    for meta in store.list_after(paths.inbox_prefix):
        with suppress(NotFound):
            yield store.get(meta.key).data
    reader = LedgerReader(store, paths)
    seq = 1
    while (data := reader.read_bytes(seq)) is not None:
        yield data
        seq += 1
    if seq <= through:
        raise Corrupt(
            f"ledger entry {seq} is missing",
            remedy="restore it from a backup; no plan is deleted while the ledger has a hole",
        )
