"""Bugs in leadership, and in what is written, acknowledged and deleted."""
# ruff: noqa: SLF001 - what is private is exactly what is broken here
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from servo.errors import Conflict, Unavailable
from servo.leader import ownership, takeover
from servo.leader.engine import Engine
from servo.leader.ownership import Ownership
from servo.ledger import slots
from servo.projection.files import manifest_store
from servo.projection.publish.publisher import Publisher
from simulation.faults import FaultyStore
from simulation.planting import Bug, swap

# --- the store and the slots ----------------------------------------------------------------------


def _overwriting_create(store: FaultyStore, key: str, data: bytes) -> Any:
    return store.put(key, data)


def _always_mine(found: Any, data: bytes, *, nonce: str, nonce_of: Any) -> None:
    del found, data, nonce, nonce_of


def _try_once(
    store: Any, key: str, data: bytes, *, nonce: str, nonce_of: Any, attempts: int = 1
) -> Any:
    """No second try and no reading back: one lost answer and nobody knows."""
    del nonce, nonce_of, attempts
    try:
        store.create(key, data)
    except Conflict:
        return store.get(key)
    return None


_write = Publisher.write


def _write_and_clean_up(self: Publisher, *args: Any, **fields: Any) -> Any:
    """Files are deleted when publishing them fails, although it may have succeeded."""
    store = self._store
    before = {meta.key for meta in store.list_after("")}
    try:
        return _write(self, *args, **fields)
    except Unavailable:
        for meta in store.list_after(""):
            if meta.key not in before and "/state/" in meta.key:
                store.delete(meta.key)
        raise


# --- leading --------------------------------------------------------------------------------------


def _claim_without_reading(ports: Any, manifests: Any, may_claim: Any) -> Any:
    del may_claim
    claim = takeover._successor(ports, manifests.latest(), ports.nonce())
    return claim if manifests.create(claim) is None else None


_catch_up = takeover._catch_up


def _catch_up_unchecked(ports: Any, paths: Any, manifests: Any, claim: Any, state: Any) -> Any:
    del manifests

    class Trusting:
        @staticmethod
        def latest() -> Any:
            return claim

    return _catch_up(ports, paths, Trusting(), claim, state)  # pyright: ignore[reportArgumentType] - all that is used of it


def _never_confirm(self: Ownership, issued: float, trust_for: Any) -> None:
    del trust_for
    self.confirmed_at = issued


def _same_epoch_will_do(newest_manifest: Any, owner: str) -> bool:
    """Compares epochs: after a collected claim two leaders carry the same one."""
    known = _epochs.get(owner)
    return newest_manifest is not None and (known is None or newest_manifest.epoch <= known)


_epochs: dict[str, int] = {}
_successor = takeover._successor


def _remembering_successor(ports: Any, latest: Any, owner: str, *, above: int = 0) -> Any:
    claim = _successor(ports, latest, owner, above=above)
    _epochs[owner] = claim.epoch
    return claim


_commit = Engine._commit


def _answer_first(self: Engine, before: Any, draft: Any, *, stalled: bool) -> None:
    replies, draft.replies = draft.replies, []
    for reply, answer in replies:
        reply(answer)
    self._workers.assign(draft.assignments)
    draft.assignments = []
    draft.waiting = []
    _commit(self, before, draft, stalled=stalled)


_tell = Engine._tell


def _tell_no(draft: Any, error: Any) -> None:
    if isinstance(error, Unavailable):
        error = Unavailable(error.message, may_have_applied=False)
    _tell(draft, error)


def _refused_after_writing(self: Ownership, issued: float, trust_for: Any) -> None:
    """The entry is durable, but the error of the look that follows says that nothing is."""
    del trust_for
    self.confirm()
    self.confirmed_at = issued


def _no_confirmation(self: Ownership) -> None:
    self.confirmed_at = self._clock.monotonic()


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "unconditional_put": Bug(
            what="a write of a ledger entry or a manifest overwrites an existing object",
            plant=swap((FaultyStore, "create", _overwriting_create)),
            seed=2,
        ),
        "taken_is_mine": Bug(
            what="a leader takes any existing entry for its own",
            plant=swap((slots, "_unless_mine", _always_mine)),
            seed=2,
        ),
        "ack_before_durable": Bug(
            what="the leader answers callers before the entry is durable",
            plant=swap((Engine, "_commit", _answer_first)),
            seed=0,
        ),
        "delete_on_unknown": Bug(
            what="a leader deletes files although their manifest may have been published",
            plant=swap(
                (Publisher, "write", _write_and_clean_up),
                (manifest_store, "create_owned", _try_once),
            ),
            seed=7,
        ),
        "no_reread_after_claim": Bug(
            what="after claiming an epoch, a leader does not read the newest manifest again",
            plant=swap((takeover, "claim_epoch", _claim_without_reading)),
            seed=23,
        ),
        "no_reread_after_fence": Bug(
            what="a leader trusts its fence although the entry it replaced may have been collected",
            plant=swap((takeover, "_catch_up", _catch_up_unchecked)),
            seed=7,
        ),
        "no_reread_after_stall": Bug(
            what="after a long stall, a leader acknowledges without checking that it leads",
            plant=swap((Ownership, "wrote", _never_confirm)),
            seed=3,
        ),
        "epoch_not_owner": Bug(
            what="leaders compare epochs instead of owners",
            plant=swap(
                (takeover, "is_owner", _same_epoch_will_do),
                (ownership, "is_owner", _same_epoch_will_do),
                (takeover, "_successor", _remembering_successor),
            ),
            seed=51,
        ),
        "unknown_told_as_no": Bug(
            what="callers are told that nothing was applied when the outcome is unknown",
            plant=swap((Engine, "_tell", staticmethod(_tell_no))),
            seed=18,
        ),
        "refused_after_the_write": Bug(
            what="callers are told that a durable entry was not applied if reading it back failed",
            plant=swap((Ownership, "wrote", _refused_after_writing)),
            seed=4,
        ),
        "answer_without_looking": Bug(
            what="a leader never checks whether it still leads",
            plant=swap((Ownership, "confirm", _no_confirmation)),
            seed=19,
        ),
    }
)
