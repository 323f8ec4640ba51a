"""Creating an object exactly once, and knowing whether it was me.

A slot is a key that is created and never overwritten: a ledger entry, a manifest. `create_owned`
fills one and says who did. Its contract:

    returns None      the object stored there is this very one
    returns a Blob    somebody else's object is there; mine is not, and never will be
    raises Unavailable(may_have_applied=False)
                      no try took place; the slot may be tried again, with these or other bytes
    raises Unavailable(may_have_applied=True)
                      nobody can tell, now or by waiting: stop. The successor reads the slot and
                      either finds the object or fences it off
    raises Corrupt    what stands there cannot be read

**Why a nonce.** A create that was applied and whose answer was lost looks, when tried again, like
a slot taken by another. Reading that as "another" kills a healthy leader, reading it as "mine"
acknowledges another's entry. So the object says whose it is: every one carries a nonce that was
never used before, and the answer comes from reading it back. Etags do not do: stores compute them
from the content.

**Why the same bytes.** A first try may still be on its way when the second is made. If they
differed, either could land, and the caller would have answered for the wrong one.

**Why unknown stays unknown.** After one try with an unknown outcome neither a later refusal nor
an empty slot proves anything: the first request may be applied after both. Only finding an object
in the slot settles it, because a create never replaces one.

**What a crash leaves.** Before the first try nothing, after it the whole object or nothing. Nothing
is ever deleted here: to delete while an outcome is unknown is to delete what others already read.

Tries follow each other at once; waiting, if any, is the caller's, who knows the clock.
"""

from collections.abc import Callable

from servo.errors import Conflict, NotFound, Unavailable
from servo.ports.object_store import Blob, ObjectStore

TRIES = 4


def create_owned(
    store: ObjectStore,
    key: str,
    data: bytes,
    *,
    nonce: str,
    nonce_of: Callable[[bytes], str],
    attempts: int = TRIES,
) -> Blob | None:
    """Fill the slot `key` with `data`, which carries `nonce`; None if it is mine now."""
    unknown = False
    refusal: Unavailable | None = None
    for _ in range(attempts):
        try:
            _ = store.create(key, data)
        except Unavailable as error:
            unknown = unknown or error.may_have_applied
            refusal = error
        except Conflict:
            # Taken, or a store that refuses while another request is under way: then it is empty.
            if (found := _read(store, key)) is not None:
                return _unless_mine(found, data, nonce=nonce, nonce_of=nonce_of)
        else:
            return None
    if unknown and (found := _read(store, key)) is not None:
        return _unless_mine(found, data, nonce=nonce, nonce_of=nonce_of)
    raise _unresolved(key, refusal, unknown=unknown) from refusal


def _read(store: ObjectStore, key: str) -> Blob | None:
    """What is in the slot; None if it is empty or cannot be read now."""
    try:
        return store.get(key)
    except (NotFound, Unavailable):
        return None


def _unless_mine(
    found: Blob, data: bytes, *, nonce: str, nonce_of: Callable[[bytes], str]
) -> Blob | None:
    mine = found.data == data or nonce_of(found.data) == nonce
    return None if mine else found


def _unresolved(key: str, refusal: Unavailable | None, *, unknown: bool) -> Unavailable:
    if unknown:
        return Unavailable(
            f"it is unknown whether {key} was created",
            remedy="restart this process: it will read what was stored",
            may_have_applied=True,
        )
    if refusal is not None:
        return Unavailable(refusal.message, remedy=refusal.remedy, may_have_applied=False)
    return Unavailable(
        f"{key} could not be created",
        remedy="check that the store can be reached and written to, then retry",
        may_have_applied=False,
    )
