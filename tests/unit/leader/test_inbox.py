"""Whatever becomes of an inbox object, the ledger says so, and what was refused is kept."""

import json
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from servo.core.events.envelope import Encoding, Original, Status, Verdict
from servo.core.events.originals import MAX_INLINE, original_bytes
from servo.core.events.quotas import QuotaSet
from servo.core.state.rows.system import DeadLetterRow, IdempotencyKeyRow
from servo.errors import Unavailable
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import Blob, ObjectMeta, ObjectStore
from servo.projection.read.reader import Reader
from servo.projection.upkeep.rebuild import rebuild
from servo.projection.upkeep.verify import ProblemPart, verify
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.testing.builders import Story
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader

SECOND = timedelta(seconds=1)
LONG_AGO = "2020-01-01T00:00:00Z"
CANCEL = {"type": "RunCancelRequested", "run_id": "run_9"}
LIMIT = {"type": "QuotaSet", "max_concurrent_tasks": 5}


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore(ManualClock()) if request.param == "memory" else LocalStore(tmp_path / "s")


def sent(*events: dict[str, Any], **fields: Any) -> bytes:
    """A batch as a program in another language may write it."""
    return json.dumps({"id": "b", **fields, "events": list(events)}, indent=1).encode()


def leave(leader: HandLeader, name: str, data: bytes) -> None:
    _ = leader.ports.store.create(leader.paths.inbox_item(name), data)
    leader.run_for(3 * SECOND)


def waiting(leader: HandLeader) -> list[ObjectMeta]:
    return list(leader.ports.store.list_after(leader.paths.inbox_prefix))


def letters(leader: HandLeader) -> list[DeadLetterRow]:
    rows = Reader(leader.ports.store, leader.paths).snapshot().rows("dead_letter")
    return [row for row in rows if isinstance(row, DeadLetterRow)]


def answered(leader: HandLeader) -> list[str]:
    """The keys of the requests that were answered."""
    rows = Reader(leader.ports.store, leader.paths).snapshot().rows("idempotency_keys")
    return [row.idempotency_key for row in rows if isinstance(row, IdempotencyKeyRow)]


def kept(leader: HandLeader, row: DeadLetterRow) -> bytes:
    """What was sent, wherever it is kept."""
    data = original_bytes(row.encoding, row.original)
    if data is not None:
        return data
    return leader.ports.store.get(leader.paths.dead_letter(row.sha256)).data


def verdicts(leader: HandLeader) -> list[Verdict]:
    entries = LedgerReader(leader.ports.store, leader.paths).forward(0)
    found = (batch.verdict for entry, _ in entries for batch in entry.batches)
    return [verdict for verdict in found if verdict is not None]


REFUSED = {
    "expired": (sent(LIMIT, sent_at=LONG_AGO), "expired"),
    "another request under the key": (sent(CANCEL, key="taken"), "idempotency_conflict"),
    "no JSON": (b"\xff\x00 not json", "undecodable"),
    "no batch": (b'{"id": 7}', "undecodable"),
    "not an object": (b"[]", "undecodable"),
    "empty": (b"", "undecodable"),
    "no events": (sent(), "invalid_batch"),
    "an id that could do harm": (sent({**CANCEL, "run_id": "../up"}), "invalid_batch"),
    "a field of another type": (sent({**LIMIT, "max_concurrent_tasks": "many"}), "invalid_event"),
    "an event of a later version": (sent({"type": "MoonReached", "v": 2}), "unknown_event"),
    "for another workspace": (sent(LIMIT, workspace="acme/staging"), "other_workspace"),
    "what is not stored": (
        sent({"type": "DefinitionsDeployed", "deployment_id": "d", "definitions_digest": "0" * 64}),
        "not_stored",
    ),
    "an event too large": (sent({**CANCEL, "reason": "x" * 300_000}), "too_large"),
    "a batch too large": (sent(*[{**CANCEL, "reason": "x" * 200_000}] * 25), "too_large"),
    "refused by a rule": (sent({**LIMIT, "max_concurrent_tasks": -1}), "invalid_quota"),
}


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_its_verdict_and_its_bytes(
    store: ObjectStore, data: bytes, code: str
) -> None:
    leader = HandLeader(store)
    _ = leader.tell(QuotaSet(max_concurrent_tasks=7), request_id="taken")
    leave(leader, "01ABC", data)
    (letter,) = letters(leader)
    (verdict,) = verdicts(leader)
    assert not waiting(leader)
    assert kept(leader, letter) == data
    assert (letter.source, letter.size) == ("inbox:01ABC", len(data))
    assert letter.sha256 == sha256(data).hexdigest()
    assert (letter.encoding is Encoding.STORED) == (len(data) > MAX_INLINE)
    assert (letter.status, letter.code, letter.reason) == (
        verdict.status,
        verdict.code,
        verdict.reason,
    )
    assert letter.code == code
    quota = leader.engine.state.quotas.rows["workspace", ""]
    assert quota.max_concurrent_tasks == 7


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_a_leader_that_dies_before_it_deletes_a_refused_object_leaves_one_verdict(
    store: ObjectStore, data: bytes, code: str
) -> None:
    first = HandLeader(store)
    _ = first.tell(QuotaSet(max_concurrent_tasks=7), request_id="taken")
    leave(first, "01ABC", data)
    _ = store.create(first.paths.inbox_item("01ABC"), data)  # as if it had not been deleted
    second = HandLeader(store, seed=1)
    second.run_for(3 * SECOND)
    assert not waiting(second)
    assert [verdict.code for verdict in verdicts(second)] == [code]
    assert len(letters(second)) == 1
    again = rebuild(store, second.paths, from_genesis=True).state
    assert again.dead_letter.rows == {(row.source, row.sha256): row for row in letters(second)}


def test_a_verdict_stays_when_the_object_would_be_accepted_by_now(store: ObjectStore) -> None:
    first = HandLeader(store)
    _ = first.tell(QuotaSet(max_daily_runs=0))
    request = sent(
        {"type": "RunRequested", "run_id": "run_9", "run_key": "k", "request_fingerprint": "f"}
    )
    leave(first, "01ABC", request)
    assert [row.code for row in letters(first)] == ["quota"]
    _ = first.tell(QuotaSet(max_daily_runs=9))
    _ = store.create(first.paths.inbox_item("01ABC"), request)
    second = HandLeader(store, seed=1)
    second.run_for(3 * SECOND)
    assert not waiting(second)
    assert not second.engine.state.runs.rows
    leave(second, "01ABD", request)
    assert list(second.engine.state.runs.rows) == ["run_9"]


def test_two_refused_objects_never_share_a_letter(store: ObjectStore) -> None:
    leader = HandLeader(store)
    for name, data in (("1", b"junk"), ("2", b"junk"), ("1", b"other"), ("1", b"more")):
        leave(leader, name, data)
    assert sorted((row.source, kept(leader, row)) for row in letters(leader)) == [
        ("inbox:1", b"junk"),
        ("inbox:1", b"more"),
        ("inbox:1", b"other"),
        ("inbox:2", b"junk"),
    ]


def test_a_parked_batch_is_marked_and_keeps_its_bytes_until_it_expires(store: ObjectStore) -> None:
    leader = HandLeader(store)
    data = sent(CANCEL)
    leave(leader, "01ABC", data)
    parked = Verdict(
        status=Status.PARKED, code="unknown_run", reason="unknown_run", waits_for="run_9"
    )
    assert verdicts(leader) == [parked]
    leader.clock.advance(timedelta(days=1))
    leader.run_for(3 * SECOND)
    (letter,) = letters(leader)
    assert (letter.code, kept(leader, letter)) == ("expired_while_waiting", data)
    assert (letter.source, letter.batch_id) == ("inbox:01ABC", "b")


def test_a_batch_that_waits_is_not_confused_with_another_of_its_id(store: ObjectStore) -> None:
    leader = HandLeader(store)
    leave(leader, "1", sent(CANCEL))
    leave(leader, "2", sent(CANCEL))  # the same request
    leave(leader, "3", sent({**CANCEL, "run_id": "run_8"}))
    assert list(leader.engine.state.parked.rows) == ["b"]
    assert [(row.source, row.code) for row in letters(leader)] == [("inbox:3", "batch_id_in_use")]


def test_an_object_that_changes_nothing_is_in_the_ledger_all_the_same(store: ObjectStore) -> None:
    leader = HandLeader(store)
    planned = sent(
        {"type": "RunRequested", "run_id": "run_9", "run_key": "k", "request_fingerprint": "f"},
        {"type": "PlanCreated", "run_id": "run_9", "fingerprint": "empty"},
        key="planned",
    )
    leave(leader, "1", planned)
    leave(leader, "2", sent({"type": "PlanCreated", "run_id": "run_9", "fingerprint": "empty"}))
    assert "inbox:2" in answered(leader)
    assert not letters(leader)


def test_a_verdict_in_an_entry_binds_a_replay_whose_rules_would_accept_the_batch() -> None:
    verdict = Verdict(status=Status.REJECTED, code="quota", reason="quota: none left")
    original = Original(source="inbox:1", sha256="0" * 64, size=2, encoding=Encoding.TEXT)
    story = Story()
    answer = story.tell(
        QuotaSet(max_concurrent_tasks=5), parkable=True, verdict=verdict, original=original
    )
    assert (answer.status, answer.reason) == (Status.REJECTED, "quota: none left")
    assert not story.state.quotas.rows
    assert [row.code for row in story.state.dead_letter.rows.values()] == ["quota"]


def never(call: str, key: str) -> bool:
    del call, key
    return False


class FailingStore(MemoryStore):
    """A store on which calls fail while `fails` says so."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.fails: Callable[[str, str], bool] = never

    def get(self, key: str) -> Blob:
        self._check("get", key)
        return super().get(key)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        self._check("create", key)
        return super().create(key, data)

    def _check(self, call: str, key: str) -> None:
        if self.fails(call, key):
            raise Unavailable("no answer", remedy="later")


def test_a_large_object_stays_in_the_inbox_until_its_bytes_are_stored() -> None:
    store = FailingStore()
    leader = HandLeader(store)
    store.fails = lambda call, key: call == "create" and "dead-letters" in key
    data = b"x" * (MAX_INLINE + 1)
    _ = MemoryStore.create(store, leader.paths.inbox_item("1"), data)
    leader.run_for(3 * SECOND)
    assert [meta.size for meta in waiting(leader)] == [len(data)]
    assert not verdicts(leader)
    store.fails = never
    leader.run_for(3 * SECOND)
    (letter,) = letters(leader)
    assert not waiting(leader)
    assert kept(leader, letter) == data


def test_objects_read_before_the_store_fails_are_not_forgotten() -> None:
    store = FailingStore()
    leader = HandLeader(store)
    store.fails = lambda call, key: call == "get" and "inbox" in key and key.endswith("2.json")
    for name in ("1", "2"):
        _ = store.create(leader.paths.inbox_item(name), sent(LIMIT, id=name))
    leader.run_for(3 * SECOND)
    assert "inbox:1" in answered(leader)
    store.fails = never
    leader.run_for(3 * SECOND)
    assert "inbox:2" in answered(leader)
    assert not waiting(leader)


def test_an_entry_stays_small_however_much_was_refused() -> None:
    leader = HandLeader(MemoryStore(ManualClock()))
    for number in range(60):
        data = b"\xff" * (MAX_INLINE - number)
        _ = leader.ports.store.create(leader.paths.inbox_item(str(number)), data)
    leader.run_for(10 * SECOND)
    assert len(letters(leader)) == 60
    sizes = [meta.size for meta in leader.ports.store.list_after(leader.paths.ledger_prefix)]
    assert max(sizes) < 2 * leader.settings.max_entry_bytes


@pytest.mark.parametrize("damage", ["deleted", "replaced"])
def test_verification_covers_the_stored_bytes_of_dead_letters(damage: str) -> None:
    leader = HandLeader(MemoryStore(ManualClock()))
    leave(leader, "1", b"x" * (MAX_INLINE + 1))
    store = leader.ports.store
    assert verify(store, leader.paths, quick=True).sound
    key = leader.paths.dead_letter(letters(leader)[0].sha256)
    if damage == "deleted":
        store.delete(key)
    else:
        _ = store.put(key, b"y" * (MAX_INLINE + 1))
    (problem,) = verify(store, leader.paths, quick=True).problems
    assert problem.part is ProblemPart.DEAD_LETTERS
    assert key in problem.what
