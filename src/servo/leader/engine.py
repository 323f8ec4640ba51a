"""The leader of one workspace: sequencer, fold, controllers and effects in one loop.

A step takes what callers left, folds it onto the state, lets the controllers add what follows
from it, and writes one ledger entry. Only when that entry is durable are callers answered and
effects performed. So a finished task, the readiness of the next one and its grant to an idle
worker cost one durable write.

**Who may race.** Other processes that believe they lead. The ledger slot decides (see
`servo.ledger.slots`): the leader that loses a slot is fenced and stops. An answer that needs no
write (a refusal, a repetition) is given only after checking that no other process has claimed the
workspace, because a leader that was replaced does not know what its successor knows.

**What a crash leaves** after each line of `_commit`: before the write, nothing but what refused
producers sent (stored under its hash, so that it is stored once), and callers try again. During the
write, an entry or not; the successor reads the slot. After it, an entry that the successor folds;
callers try again and get the same answer, effects are found undone in the state (a pending outbox
row, a lease that is not renewed) and done again.

**If a write certainly failed** (a full disk), the fold is rolled back, callers get the error, and
the loop continues. If the outcome is unknown, the leader stops: it must not guess.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from servo.config import Settings
from servo.controllers import freshness, timers
from servo.controllers.actions import Propose
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Answer, Entry, Status, Verdict, code_of
from servo.core.fold.apply import open_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.format import FORMAT, servo_of
from servo.core.state.state import State
from servo.errors import NotFound, ServoError, Unavailable
from servo.leader.draft import Draft
from servo.leader.execute import Executor
from servo.leader.heartbeats import Heartbeats
from servo.leader.inbox import InboxFeed
from servo.leader.maintenance import Maintenance
from servo.leader.ownership import Ownership
from servo.leader.ports import Ports
from servo.leader.reconciling import Controllers
from servo.leader.requests import Inbox, Request
from servo.leader.takeover import Leadership
from servo.leader.term import TICK, TermClock
from servo.leader.workers import NoWorkers, Workers
from servo.ledger.paths import Paths
from servo.ledger.writer import LedgerWriter


class _Before(msgspec.Struct, frozen=True):
    """The state before an entry was opened."""

    seq: int
    epoch: int
    ts: datetime


class Engine:
    """Leads one workspace from a takeover until it is fenced, stopped or fails."""

    def __init__(
        self,
        ports: Ports,
        paths: Paths,
        settings: Settings,
        leadership: Leadership,
        *,
        workers: Workers | None = None,
    ) -> None:
        self.ports = ports
        self.settings = settings
        self.state: State = leadership.state
        self.inbox = Inbox()
        self.clock = TermClock(
            ports.clock,
            self.state.ts,
            settings.stall_after,
            fenced_at=leadership.confirmed_at,
        )
        self.ownership = Ownership(ports, paths, leadership)
        self.maintenance = Maintenance(ports, paths, settings, leadership)
        self.heartbeats = Heartbeats(self.state)
        self.feed = InboxFeed(ports.store, paths)
        self._epoch = leadership.epoch
        self._owner = leadership.owner
        self._writer = LedgerWriter(ports.store, paths)
        self._hydrator = self.maintenance.hydrator
        self._executor = Executor(ports, paths)
        self._workers = workers if workers is not None else NoWorkers()
        self._controllers = Controllers(
            ports, settings, leadership, self._hydrator, self.heartbeats, self._workers
        )
        self._stalled = False
        # Since the fence, which gave every lease its time: we may have been stopped right after it.
        self._last_step = leadership.confirmed_at
        self._next_inbox = self.clock.now()
        self._next_show = self._next_inbox
        self._taken: list[Request] = []

    # --- the loop ---------------------------------------------------------------------------

    def step(self) -> bool:
        """Do everything that is due now; whether there was anything. Raises when this term ends."""
        now = self.clock.now()
        self._notice_stall()
        self._answer_reads()
        self._answer_beats(now)
        self._taken = self._take_requests(now)
        committed = self._cycle(self._taken, now)
        self._taken = []
        self._perform_effects()
        self._show_beats(now)
        self.maintenance.step(self.state, self.clock.now())
        self._take_proposals()
        return committed

    def next_due(self) -> datetime | None:
        """When the loop has to run again without a request; None if only a request can wake it."""
        due = [
            timers.next_due(self.state),
            freshness.next_due(self.state),
            self.maintenance.next_due(self.state),
        ]
        if self.state.index.active or self.state.parked.rows:
            due.append(self._controllers.next_sweep)
        if self.state.index.runs_expanding:
            due.append(self.clock.now())
        return min((at for at in due if at is not None), default=None)

    def _notice_stall(self) -> None:
        """Silence of this loop must not look like silence of the workers."""
        current = self.clock.monotonic()
        silence = timedelta(seconds=current - self._last_step)
        self._last_step = current
        if self.state.index.active and silence > self.settings.stall_after:
            self._stalled = True
        if self.clock.jumped:
            self.clock.jumped = False
            self._stalled = True

    def _answer_reads(self) -> None:
        """Answer readers of the state while all of it is durable."""
        for _ in range(len(self.inbox.reads)):
            self.inbox.reads.popleft().look(self.state)

    def _answer_beats(self, now: datetime) -> None:
        if not self.inbox.beats:
            return
        try:
            self.ownership.confirm_within(self.heartbeats.shortest_lease(self.inbox.beats) / 3)
        except Unavailable as error:
            self._drop_beats(error)
            return
        self.heartbeats.answer(self.inbox.beats, now)

    def _show_beats(self, now: datetime) -> None:
        if now >= self._next_show:
            self._next_show = now + self.settings.show_beats_every
            self.heartbeats.show()

    def _drop_beats(self, error: ServoError) -> None:
        while self.inbox.beats:
            self.inbox.beats.popleft().reply(error)

    def _take_requests(self, now: datetime) -> list[Request]:
        if now >= self._next_inbox:
            self._next_inbox = now + self.settings.inbox_every
            for item in self.feed.collect():
                self.inbox.put(item)
        taken = self.inbox.drain(
            max_batches=self.settings.max_batches_per_entry,
            max_bytes=self.settings.max_entry_bytes,
        )
        if not self.maintenance.behind:
            return taken
        return [item for item in taken if not self._push_back(item)]

    def _push_back(self, item: Request) -> bool:
        """Refuse new work while publishing is behind; never what a worker reports."""
        if not item.trigger or item.batch.parkable:
            return False
        item.reply(
            Unavailable(
                "publishing is behind, so new runs have to wait",
                remedy="retry after a second",
                may_have_applied=False,
            )
        )
        return True

    # --- one entry --------------------------------------------------------------------------

    def _cycle(self, requests: Sequence[Request], now: datetime) -> bool:
        before = _Before(self.state.seq, self.state.epoch, self.state.ts)
        draft = Draft(self.state)
        draft.waiting.extend(requests)
        try:
            batches = [item.batch for item in requests]
            wrong = self._hydrator.prepare(self.state, batches, lenient=True)
        except (Unavailable, NotFound) as error:
            self._tell(draft, error)
            return False
        stalled, self._stalled = self._stalled, False
        open_entry(
            self.state,
            seq=before.seq + 1,
            epoch=self._epoch,
            ts=max(now, before.ts + TICK),
            stall=stalled,
        )
        for item in requests:
            answer = self._take(draft, item, wrong.get(item.batch.id))
            draft.replies.append((item.reply, answer))
        self._controllers.reconcile(draft)
        if not self.state.journal:
            self._stand_still(before, draft)
            self._stalled = stalled
            return False
        self._commit(before, draft, stalled=stalled)
        self.state.forget_loaded()
        return True

    def _take(self, draft: Draft, item: Request, wrong: str | None) -> Answer:
        """Fold a request; refuse or set aside one that names an object that is not stored."""
        if wrong is None:
            return draft.fold(item.batch, item.raw, item.original)
        reason = f"not_stored: {wrong}"
        if not item.batch.parkable:
            return Answer(status=Status.REJECTED, seq=self.state.seq, reason=reason)
        verdict = Verdict(status=Status.REJECTED, code=code_of(reason), reason=reason)
        return draft.fold(replace(item.batch, verdict=verdict), item.raw, item.original)

    def _stand_still(self, before: _Before, draft: Draft) -> None:
        """Nothing changed: answer without a write, if we still lead."""
        self._restore(before)
        if not draft.replies:
            return
        try:
            self.ownership.confirm()
        except ServoError as error:
            self._tell(draft, error)
            if not isinstance(error, Unavailable):
                raise
            return
        for reply, answer in draft.replies:
            reply(replace(answer, seq=before.seq) if answer.seq > before.seq else answer)

    def _commit(self, before: _Before, draft: Draft, *, stalled: bool) -> None:
        state = self.state
        needs = max(state.min_reader, draft.min_reader)
        entry = Entry(
            format=FORMAT,
            min_reader=needs,
            min_servo=servo_of(needs),
            seq=state.seq,
            epoch=self._epoch,
            owner=self._owner,
            nonce=self.ports.nonce(),
            ts=state.ts,
            prev_hash=state.last_hash,
            fold_version=FOLD_VERSION,
            stall=stalled,
        )
        issued = self.clock.monotonic()
        try:
            self.feed.keep(draft.originals)
            digest = self._writer.append(entry, draft.batches)
            self.ownership.wrote(issued, self.settings.gc_min_age / 2)
        except Unavailable as error:
            self._tell(draft, error)
            if error.may_have_applied:
                raise
            state.rollback(0)
            self._restore(before)
            self._stalled = stalled
            return
        except ServoError as error:
            self._tell(draft, error)
            raise
        state.seal()
        state.last_hash = digest
        state.min_reader = needs
        for reply, answer in draft.replies:
            reply(answer)
        if draft.assignments:
            self._workers.assign(draft.assignments)

    def _restore(self, before: _Before) -> None:
        self.state.seq, self.state.epoch, self.state.ts = before.seq, before.epoch, before.ts

    @staticmethod
    def _tell(draft: Draft, error: ServoError) -> None:
        for item in draft.waiting:
            item.reply(error)

    # --- effects ----------------------------------------------------------------------------

    def _perform_effects(self) -> None:
        """Send what the outbox holds and note what the queue took for the next entry."""
        for batch in self._executor.flush(self.state):
            self.inbox.put(
                Request(batch=batch, raw=encode_batch(batch), reply=_nobody, trigger=False)
            )
        self.feed.forget()

    def _take_proposals(self) -> None:
        """Put the proposals of the background into the next entry."""
        while self.maintenance.proposals:
            action = Propose((self.maintenance.proposals.pop(0),))
            batch = self._controllers.batch_of(action)
            self.inbox.put(
                Request(batch=batch, raw=encode_batch(batch), reply=_nobody, trigger=False)
            )

    def finish(self) -> Unavailable | None:
        """Commit what is waiting and publish everything, before stopping.

        The error if the store did not take the tables: the ledger has everything, and the next
        leader publishes it.
        """
        while len(self.inbox):
            self.step()
        return self.maintenance.flush(self.state)

    def shut_down(self, why: ServoError) -> None:
        """Answer all waiting callers that this leader has stopped."""
        waiting = self.inbox.close(why)  # first: the inbox refuses what arrives later
        self._drop_beats(why)
        while self.inbox.reads:
            self.inbox.reads.popleft().fail(why)
        for item in (*self._taken, *waiting):
            item.reply(why)


def _nobody(answer: Answer | ServoError) -> None:
    del answer
