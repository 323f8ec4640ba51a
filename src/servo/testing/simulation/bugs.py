"""Bugs, planted on purpose: a simulator that does not find them proves nothing.

Each bug replaces one piece of the real code by a broken one while a world runs. Production code
has no switches for them. `seed` is a world that is known to find the bug.
"""
# What is private is exactly what is broken here.
# pyright: reportPrivateUsage=false

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.controllers import anti_entropy
from servo.controllers import dispatch as dispatch_controller
from servo.core.events.backfills import BackfillState
from servo.core.events.sensors import SensorEvaluated
from servo.core.fold import apply, backfills, dispatch, run_lifecycle, sensors, tasks
from servo.core.fold.context import Rejected
from servo.core.state.state import State
from servo.core.state.states import BLOCKED, Resolution
from servo.errors import Conflict, Unavailable
from servo.ledger import slots
from servo.projection import manifest_store, newest
from servo.projection.publisher import Publisher
from servo.runtime import engine, ownership, takeover
from servo.runtime.engine import Engine
from servo.runtime.ownership import Ownership
from servo.testing.simulation import actors
from servo.testing.simulation.faults import FaultyStore

Planting = Callable[[], AbstractContextManager[None]]


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, how to make it so, and a seed whose world finds it.

    `backfills` says that it is the world of backfills of that seed.
    """

    what: str
    plant: Planting
    seed: int
    backfills: bool = False


def _swap(*changes: tuple[Any, str, Any]) -> Planting:
    """Put broken things in the place of attributes for a while."""

    @contextmanager
    def planted() -> Generator[None]:
        with ExitStack() as stack:
            for owner, name, broken in changes:
                sound = getattr(owner, name)
                setattr(owner, name, broken)
                stack.callback(setattr, owner, name, sound)
            yield

    return planted


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


def _claim_without_reading(ports: Any, manifests: Any) -> Any:
    claim = takeover._successor(ports, manifests.latest(), ports.nonce())  # noqa: SLF001
    return claim if manifests.create(claim) is None else None


_catch_up = takeover._catch_up  # noqa: SLF001


def _catch_up_unchecked(ports: Any, paths: Any, manifests: Any, claim: Any, state: Any) -> Any:
    del manifests

    class Trusting:
        @staticmethod
        def latest() -> Any:
            return claim

    return _catch_up(ports, paths, Trusting(), claim, state)  # pyright: ignore[reportArgumentType]


def _never_confirm(self: Ownership, issued: float, trust_for: Any) -> None:
    del trust_for
    self.confirmed_at = issued


def _same_epoch_will_do(newest_manifest: Any, owner: str) -> bool:
    """Compares epochs: after a collected claim two leaders carry the same one."""
    known = _epochs.get(owner)
    return newest_manifest is not None and (known is None or newest_manifest.epoch <= known)


_epochs: dict[str, int] = {}
_successor = takeover._successor  # noqa: SLF001


def _remembering_successor(ports: Any, latest: Any, owner: str) -> Any:
    claim = _successor(ports, latest, owner)
    _epochs[owner] = claim.epoch
    return claim


_commit = Engine._commit  # noqa: SLF001


def _answer_first(self: Engine, before: Any, draft: Any, *, stalled: bool) -> None:
    replies, draft.replies = draft.replies, []
    for reply, answer in replies:
        reply(answer)
    for assignment in draft.assignments:
        self._workers.assign(assignment)
    draft.assignments = []
    draft.waiting = []
    _commit(self, before, draft, stalled=stalled)


def _no_confirmation(self: Ownership) -> None:
    self.confirmed_at = self._clock.monotonic()


# --- the fold -------------------------------------------------------------------------------------

_open_entry = apply.open_entry


def _open_without_takeover_refresh(
    state: State, *, seq: int, epoch: int, ts: Any, stall: bool
) -> None:
    state.epoch = max(state.epoch, epoch)
    _open_entry(state, seq=seq, epoch=epoch, ts=ts, stall=stall)


def _open_without_stall_refresh(
    state: State, *, seq: int, epoch: int, ts: Any, stall: bool
) -> None:
    del stall
    _open_entry(state, seq=seq, epoch=epoch, ts=ts, stall=False)


_evaluated = sensors.RULES[SensorEvaluated]


def _stale_but_followed(state: State, event: Any, ctx: Any) -> None:
    """The head of a batch is refused and its followers apply all the same."""
    try:
        _evaluated(state, event, ctx)
    except Rejected:
        return


def _one_name_per_attempt(tenant: Any, workspace: Any, attempt: Any, delivery: int) -> Any:
    del delivery
    return _message_name(tenant, workspace, attempt, 1)


_message_name = dispatch.queue_message_name
_started = tasks.RULES[tasks.TaskStarted]


def _everyone_granted(state: State, event: Any, ctx: Any) -> None:
    try:
        _started(state, event, ctx)
    except Rejected:
        ctx.data["grant"] = "granted"


def _deaf_sweep(state: State, now: Any, beats: Any) -> Any:
    del beats
    return _sweep(state, now, {})


_sweep = anti_entropy.reconcile


def _plenty(state: State) -> int:
    return 1000 + len(state.tasks.rows)


def _ready_too_early(state: State, row: Any, how: Any) -> Any:
    """Any resolved upstream counts as a success of the last one."""
    last = row.deps_total - 1
    nearly = replace(row, deps_satisfied_count=last, deps_resolved_count=last)
    return _resolved(state, nearly, Resolution.SUCCESS if row.state is BLOCKED else how)


_resolved = run_lifecycle.resolved


# --- backfills ------------------------------------------------------------------------------------


def _any_turn(state: State, row: Any, event: Any) -> None:
    """A chunk is planned whatever state its backfill is in."""
    running = replace(row, state=BackfillState.RUNNING, state_version=event.expected_state_version)
    _check_turn(state, running, event)


_check_turn = backfills._check_turn  # noqa: SLF001


def _counted_twice(state: State, run: Any, ctx: Any) -> None:
    """A chunk that has ended is settled again by the end of its run."""
    _on_run_ended(state, run, ctx)
    for chunk in list(state.chunks.rows.values()):
        if chunk.run_id == run.run_id and chunk.failed_partition_keys:
            row = state.backfills.rows[chunk.backfill_id]
            failed = row.partitions_failed + len(chunk.failed_partition_keys)
            state.backfills.put(row.backfill_id, replace(row, partitions_failed=failed))


_on_run_ended = backfills.on_run_ended


def _others_too(state: State, chunk: Any, run: Any) -> Any:
    """A failed task fails its whole chunk, and what succeeded is made again."""
    outcome = _outcome(state, chunk, run)
    return replace(outcome, failed=chunk.partition_keys) if outcome.failed else outcome


_outcome = backfills.outcome_by_tasks


# --- the projection -------------------------------------------------------------------------------


def _oldest_wins(spec: Any, table: Any) -> Any:
    """Rows are merged by something that is not the order of the ledger."""
    upside_down = table.set_column(
        table.column_names.index(newest.VERSION),
        newest.VERSION,
        newest.pc.negate(table.column(newest.VERSION)),
    )
    return _winners(spec, upside_down)


_winners = newest._winners  # noqa: SLF001


def _forgetful_restore(self: Publisher, state: State, capture: Any) -> None:
    self._end(state)
    del capture


def _no_claim(world: Any, process: Any, delivery: Any, exec_id: str) -> bool:
    _claim(world, process, delivery, exec_id)
    return True


_claim = actors.claim


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "unconditional_put": Bug(
            what="ledger entries and manifests overwrite what is there",
            plant=_swap((FaultyStore, "create", _overwriting_create)),
            seed=1,
        ),
        "taken_is_mine": Bug(
            what="a slot that is taken is read as taken by me",
            plant=_swap((slots, "_unless_mine", _always_mine)),
            seed=1,
        ),
        "ack_before_durable": Bug(
            what="callers are answered before the entry is written",
            plant=_swap((Engine, "_commit", _answer_first)),
            seed=0,
        ),
        "delete_on_unknown": Bug(
            what="files are deleted when it is unknown whether they were published",
            plant=_swap(
                (Publisher, "write", _write_and_clean_up),
                (manifest_store, "create_owned", _try_once),
            ),
            seed=35,
        ),
        "no_reread_after_claim": Bug(
            what="a claimed epoch is not checked by reading the newest manifest",
            plant=_swap((takeover, "claim_epoch", _claim_without_reading)),
            seed=23,
        ),
        "no_reread_after_fence": Bug(
            what="a fence is trusted although the missing entry may have been collected",
            plant=_swap((takeover, "_catch_up", _catch_up_unchecked)),
            seed=47,
        ),
        "no_reread_after_stall": Bug(
            what="an append after a long stall is acknowledged without looking",
            plant=_swap((Ownership, "wrote", _never_confirm)),
            seed=3,
        ),
        "epoch_not_owner": Bug(
            what="leaders compare epochs and not owners",
            plant=_swap(
                (takeover, "is_owner", _same_epoch_will_do),
                (ownership, "is_owner", _same_epoch_will_do),
                (takeover, "_successor", _remembering_successor),
            ),
            seed=51,
        ),
        "answer_without_looking": Bug(
            what="a leader never looks whether it still leads",
            plant=_swap((Ownership, "confirm", _no_confirmation)),
            seed=3,
        ),
        "no_claim": Bug(
            what="workers run what they are sent without being granted it",
            plant=_swap((actors, "claim", _no_claim)),
            seed=0,
        ),
        "everyone_granted": Bug(
            what="every claim is granted",
            plant=_swap((apply, "RULES", {**apply.RULES, tasks.TaskStarted: _everyone_granted})),
            seed=0,
        ),
        "same_queue_name": Bug(
            what="a delivery is sent again under the same name",
            plant=_swap((dispatch, "queue_message_name", _one_name_per_attempt)),
            seed=0,
        ),
        "no_refresh_on_takeover": Bug(
            what="leases are not renewed when a new leader takes over",
            plant=_swap(
                (apply, "open_entry", _open_without_takeover_refresh),
                (engine, "open_entry", _open_without_takeover_refresh),
            ),
            seed=1,
        ),
        "no_refresh_after_stall": Bug(
            what="leases are not renewed when the leader was silent",
            plant=_swap(
                (apply, "open_entry", _open_without_stall_refresh),
                (engine, "open_entry", _open_without_stall_refresh),
            ),
            seed=11,
        ),
        "deaf_sweep": Bug(
            what="the sweep does not listen to heartbeats",
            plant=_swap((anti_entropy, "reconcile", _deaf_sweep)),
            seed=0,
        ),
        "half_applied_batch": Bug(
            what="a stale evaluation is dropped and the runs it asked for are made",
            plant=_swap((apply, "RULES", {**apply.RULES, SensorEvaluated: _stale_but_followed})),
            seed=0,
        ),
        "cap_ignored": Bug(
            what="the limit of tasks in flight is not looked at",
            plant=_swap(
                (dispatch, "free_slots", _plenty), (dispatch_controller, "free_slots", _plenty)
            ),
            seed=0,
        ),
        "ready_too_early": Bug(
            what="one resolved upstream makes a task ready",
            plant=_swap((run_lifecycle, "resolved", _ready_too_early)),
            seed=1,
        ),
        "planned_while_paused": Bug(
            what="a chunk is planned of a backfill that does not run",
            plant=_swap((backfills, "_check_turn", _any_turn)),
            seed=7,
            backfills=True,
        ),
        "progress_counted_twice": Bug(
            what="the failures of a chunk are counted twice",
            plant=_swap((backfills, "on_run_ended", _counted_twice)),
            seed=2,
            backfills=True,
        ),
        "chunk_fails_as_a_whole": Bug(
            what="one failed partition fails all of its chunk",
            plant=_swap((backfills, "outcome_by_tasks", _others_too)),
            seed=3,
            backfills=True,
        ),
        "merge_by_other_order": Bug(
            what="versions of a row are merged by something else than the ledger's order",
            plant=_swap((newest, "_winners", _oldest_wins)),
            seed=0,
        ),
        "lost_capture": Bug(
            what="rows of a publish that failed are never published",
            plant=_swap((Publisher, "restore", _forgetful_restore)),
            seed=10,
        ),
    }
)


def planted(name: str) -> AbstractContextManager[None]:
    """A context in which the bug of this name is there; none for the empty name."""
    return BUGS[name].plant() if name else nullcontext()
