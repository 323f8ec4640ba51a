"""Ways to submit a batch to the ledger, all with the same interface.

    LeaderInThisProcess    this process leads
    LeaderInOtherProcess   another process leads, and this one can connect to it
    LeaderForAMoment       there is no leader: this process leads for as long as the batch takes
    Inbox                  a leader that cannot be reached: through objects in the store

`AnyChannel` chooses the best way for each batch. A leader may die between any two steps. The batch
keeps its key, so it can be sent again to the next leader: what was applied is answered again and
not applied twice.
"""

import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec.structs import replace

from servo.core.events.codec import encode_batch, read_back
from servo.core.events.envelope import Answer, Batch, Status
from servo.core.events.originals import inbox_source
from servo.core.events.request_hash import request_hash
from servo.core.events.validate import check_batch
from servo.core.ids import ulid
from servo.core.state.rows.system import DeadLetterRow, IdempotencyKeyRow, ParkedBatchRow
from servo.errors import Fenced, NotFound, ServoError, Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.leader.service import Service
from servo.ports.world import World
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Reader, Snapshot
from servo.workspace.address import Address
from servo.workspace.answering import Unreached, check_answers, is_same
from servo.workspace.connecting import can_connect, connect
from servo.workspace.leader_connection import AnswerOverdue, LeaderNotReady, NobodyListens
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import (
    FoundLeader,
    LeaderWatch,
    find_leader,
    try_to_lead,
    who_leads,
)
from servo.workspace.receipt import Receipt, queued, receipt_of

ANSWER_WITHIN = 30.0
LOOK_EVERY = 0.1
TRY_EVERY = 0.05


class Channel(Protocol):
    """A way into the ledger."""

    def send(self, batch: Batch) -> Receipt:
        """Commit a batch; the receipt.

        `Invalid` if it can never be committed, `Unavailable` if its outcome is unknown.
        """
        ...


class LeaderInThisProcess:
    """Straight to a leader of this process."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def send(self, batch: Batch) -> Receipt:
        try:
            answer = self._service.commit(batch, ANSWER_WITHIN)
        except NoAnswer:
            raise AnswerOverdue(ANSWER_WITHIN) from None
        return receipt_of(_request_id(batch), answer)


class LeaderInOtherProcess:
    """To a leader that this process can connect to."""

    def __init__(self, leader: LeaderAdvert, *, lease: str | None = None) -> None:
        self._leader = leader
        self._lease = lease

    def send(self, batch: Batch) -> Receipt:
        check_answers(self._leader)
        try:
            with connect(self._leader, timeout=ANSWER_WITHIN) as connection:
                answer = connection.commit(batch, timeout=ANSWER_WITHIN, lease=self._lease)
        except AnswerOverdue:
            check_answers(self._leader, sent=True)
            raise
        return receipt_of(_request_id(batch), answer)


class InboxChannel:
    """Through objects in the store, which a leader looks for every few seconds.

    The outcome of a batch is read from what the leader publishes. `is_led` tells whether waiting
    still makes sense.
    """

    def __init__(self, address: Address, world: World, is_led: Callable[[], bool]) -> None:
        self._paths = address.paths
        self._world = world
        self._is_led = is_led
        self._pause = threading.Event()

    def send(self, batch: Batch) -> Receipt | None:
        """The receipt of a batch; None if the leader ended before it answered."""
        clock, store = self._world.clock, self._world.store
        name = ulid(clock.now(), self._world.entropy.token_bytes(10))
        raw = _checked(batch)
        store.create(self._paths.inbox_item(name), raw)
        sent, source = read_back(raw), inbox_source(name)
        reader = Reader(store, self._paths)
        until = clock.monotonic() + ANSWER_WITHIN
        while clock.monotonic() < until:
            with suppress(Unavailable):  # the request is stored, whatever the store does now
                answer = _published(reader, sent, source)
                if answer is not None:
                    return receipt_of(_request_id(batch), answer)
                if not self._is_led():
                    return None
            self._pause.wait(LOOK_EVERY)
        return queued(_request_id(batch), "the leader has not processed the request yet")


class AnyChannel:
    """The best channel at the moment something is sent.

    The inbox is also used for a leader of this machine that cannot be reached for some seconds
    although it holds its lock: its socket was deleted, for example.

    `to_lead` opens the store as a leader needs it, which is more work than reading it.
    """

    def __init__(
        self, address: Address, world: World, to_lead: Callable[[], World] | None = None
    ) -> None:
        self._address = address
        self._world = world
        self._to_lead = to_lead or (lambda: world)
        self._watch = LeaderWatch(address, world)
        self._pause = threading.Event()

    def send(self, batch: Batch) -> Receipt:
        tries = _Tries()
        try:
            return self._insist(batch, tries)
        except Unavailable as error:
            # The last try may have changed nothing for certain, but not those before it.
            error.may_have_applied = error.may_have_applied or tries.may_have_applied
            raise

    def _insist(self, batch: Batch, tries: "_Tries") -> Receipt:
        clock = self._world.clock
        until, unreached = clock.monotonic() + ANSWER_WITHIN, Unreached(clock)
        while True:
            found = find_leader(self._address, self._world)
            try:
                receipt = self._through(found, batch, unreached)
                if found.leader is not None:
                    tries.may_have_applied = True  # it may lie in the inbox
            except (Unavailable, Fenced) as error:
                if isinstance(error, Fenced) or error.may_have_applied:
                    tries.may_have_applied = True
                if clock.monotonic() >= until or not self._is_over(found.leader, error):
                    raise
                receipt = None
            if receipt is not None:
                return receipt
            if clock.monotonic() >= until:
                raise AnswerOverdue(ANSWER_WITHIN)
            self._pause.wait(TRY_EVERY)

    def _through(self, found: FoundLeader, batch: Batch, unreached: Unreached) -> Receipt | None:
        """Send a batch to the leader, or become it; None if the leader has changed meanwhile."""
        leader = found.leader
        if leader is None:
            return self._for_a_moment(batch)
        if can_connect(leader):
            try:
                return LeaderInOtherProcess(leader, lease=found.lease).send(batch)
            except NobodyListens:
                if not unreached.is_lost(leader):
                    raise
        elif not leader.pid and not self._address.is_shared and not unreached.is_lost(leader):
            return None  # it has just taken the lock, and says in a moment how to reach it
        return InboxChannel(self._address, self._world, self._is_led).send(batch)

    def _for_a_moment(self, batch: Batch) -> Receipt | None:
        led = try_to_lead(self._address, self._to_lead(), leader=Leader(command="request"))
        if led is None:
            return None
        with led:
            return LeaderInThisProcess(led.service).send(batch)

    def _is_over(self, leader: LeaderAdvert | None, error: ServoError) -> bool:
        """Whether the receiver no longer leads, so that the batch can be sent again."""
        return isinstance(error, Fenced | LeaderNotReady) or not is_same(self._who_leads(), leader)

    def _is_led(self) -> bool:
        return self._watch.leader() is not None

    def _who_leads(self) -> LeaderAdvert | None:
        return who_leads(self._address, self._world)


class _Tries:
    """Whether one of the tries so far may have gone through."""

    may_have_applied = False


def _request_id(batch: Batch) -> str:
    return batch.request_id or batch.id


def _checked(batch: Batch) -> bytes:
    """A batch as it is stored; `Invalid` if no leader could accept it."""
    raw = encode_batch(batch)
    check_batch(read_back(raw), raw)
    return raw


def _published(reader: Reader, batch: Batch, source: str) -> Answer | None:
    """What was published about a batch in the inbox; None if nothing was yet."""
    try:
        return reader.read(lambda snapshot: _found(snapshot, batch, source))
    except NotFound:
        return None


def _found(snapshot: Snapshot, batch: Batch, source: str) -> Answer | None:
    lookup = Lookup(snapshot)
    for row in lookup.all(DeadLetterRow, source=source):
        return Answer(status=row.status, seq=row.seq, reason=row.reason)
    for row in lookup.all(IdempotencyKeyRow, idempotency_key=batch.request_id or source):
        if row.request_hash == request_hash(batch.events):
            return replace(msgspec.json.decode(row.answer, type=Answer), index=row.first_index)
    for row in lookup.all(ParkedBatchRow, batch_id=batch.id):
        return Answer(
            status=Status.PARKED, seq=row.row_version, index=row.first_index, reason=row.reason
        )
    return None
