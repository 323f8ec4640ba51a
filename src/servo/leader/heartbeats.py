"""Heartbeats, kept only in the leader's memory.

Losing them is safe: a new leader gives every lease its full time again. A beat is answered with
what the execution should do: continue, stop because its run is cancelled, or give up because it no
longer holds the attempt.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from servo.controllers.anti_entropy import LastBeat
from servo.core.fold.limits import MIN_HEARTBEAT_TIMEOUT_MS
from servo.core.state.rows.execution import TaskHeartbeatRow
from servo.core.state.state import State
from servo.core.state.states import TaskState
from servo.leader import requests


class BeatReply(StrEnum):
    """The reply to a beat."""

    GO_ON = "ok"
    CANCEL = "cancel"
    LOST = "lost"


class Heartbeats:
    """The last beat of every execution that holds an attempt."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._beats: dict[str, LastBeat] = {}
        self._unseen: dict[tuple[str, str], TaskHeartbeatRow] = {}

    def answer(self, beats: deque[requests.BeatRequest], now: datetime) -> None:
        """Record and answer all beats that came in."""
        while beats:
            item = beats.popleft()
            item.reply(self._note(item.beat, now))

    def shortest_lease(self, beats: Iterable[requests.BeatRequest]) -> timedelta:
        """The shortest lease among the tasks that these beats are about."""
        keys = ((item.beat.run_id, item.beat.task_key) for item in beats)
        rows = (self._state.tasks.get(key) for key in keys)
        lengths = [row.heartbeat_timeout_ms for row in rows if row is not None]
        return timedelta(milliseconds=min(lengths, default=MIN_HEARTBEAT_TIMEOUT_MS))

    def _note(self, beat: requests.Beat, now: datetime) -> BeatReply:
        row = self._state.tasks.get((beat.run_id, beat.task_key))
        if row is None or row.state is not TaskState.RUNNING:
            return BeatReply.LOST
        if row.attempt_id != beat.attempt_id or row.exec_id != beat.exec_id:
            return BeatReply.LOST
        known = self._beats.get(row.attempt_id)
        count = 1 if known is None else known.count + 1
        self._beats[row.attempt_id] = LastBeat(exec_id=row.exec_id, at=now, count=count)
        self._unseen[row.run_id, row.task_key] = TaskHeartbeatRow(
            run_id=row.run_id,
            task_key=row.task_key,
            attempt_id=row.attempt_id,
            exec_id=row.exec_id,
            worker_id=row.worker_id,
            last_heartbeat_at=now,
            beats=count,
            row_version=self._state.seq,
        )
        run = self._state.runs.rows[row.run_id]
        return BeatReply.GO_ON if run.cancel_requested_at is None else BeatReply.CANCEL

    def current(self) -> dict[str, LastBeat]:
        """Beats of executions that still hold their attempt; the others are forgotten."""
        held = {self._state.tasks.rows[key].attempt_id for key in self._state.index.running}
        self._beats = {attempt: beat for attempt, beat in self._beats.items() if attempt in held}
        return self._beats

    def show(self) -> None:
        """Give the latest beats to the next publish, and forget executions that have ended."""
        table = self._state.heartbeats
        for key in [key for key in table.rows if key not in self._state.index.running]:
            table.evict(key)
            table.dirty[key] = None
        for key, row in self._unseen.items():
            if key in self._state.index.running:
                table.load(key, row)
                table.dirty[key] = row
        self._unseen.clear()
