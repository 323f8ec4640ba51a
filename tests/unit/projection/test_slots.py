"""Every way in which filling a slot can end, and what the caller is told.

A script says, try by try, what the store does: whether it applies the write, what it answers, and
whether the slot can be read. The rule under test must never say "mine" or "not mine" wrongly.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.errors import Conflict, Corrupt, Unavailable
from servo.ledger.slots import create_owned
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock

KEY = "t/w/ledger/orchestration/00000000000000000007.json"
MINE = b"mine:payload"
OTHER = b"other:payload"


class Try(Enum):
    ANSWERED = auto()  # the store does it and says so
    LOST = auto()  # the request never arrives; nobody can tell
    LATE = auto()  # nobody can tell, and it is applied when everybody has given up
    ANSWER_LOST = auto()  # it is applied; nobody can tell
    REFUSED = auto()  # it is certainly not applied
    BUSY = auto()  # 409: another request is under way, the slot is as it was
    RIVAL_FIRST = auto()  # somebody else fills the slot first, then the store answers


class Scripted(MemoryStore):
    """A store that goes through a script; past its end it works."""

    def __init__(self, script: Sequence[Try], *, readable: bool = True) -> None:
        super().__init__(ManualClock())
        self.script = list(script)
        self.readable = readable
        self.sent: list[bytes] = []
        self.late = False

    def create(self, key: str, data: bytes) -> ObjectMeta:
        self.sent.append(data)
        match self.script.pop(0) if self.script else Try.ANSWERED:
            case Try.ANSWERED:
                return super().create(key, data)
            case Try.LOST:
                raise Unavailable("timed out", may_have_applied=True)
            case Try.LATE:
                self.late = True
                raise Unavailable("timed out", may_have_applied=True)
            case Try.ANSWER_LOST:
                if not self.list_after(key):
                    _ = super().create(key, data)
                raise Unavailable("connection reset", may_have_applied=True)
            case Try.REFUSED:
                raise Unavailable("no space left", may_have_applied=False)
            case Try.BUSY:
                raise Conflict("conditional request conflict")
            case Try.RIVAL_FIRST:
                if not self.list_after(key):
                    _ = super().create(key, OTHER)
                return super().create(key, data)

    def get(self, key: str) -> Blob:
        if not self.readable:
            raise Unavailable("timed out")
        return super().get(key)

    def stored(self) -> bytes | None:
        """What is in the slot once every request has arrived."""
        self.readable = True
        if self.late and not self.list_after(KEY):
            _ = super().create(KEY, MINE)
        return self.get(KEY).data if self.list_after(KEY) else None


def nonce_of(data: bytes) -> str:
    return data.split(b":")[0].decode()


def fill(store: Scripted, read: Callable[[bytes], str] = nonce_of) -> Blob | None:
    return create_owned(store, KEY, MINE, nonce="mine", nonce_of=read, attempts=3)


def test_a_create_that_is_answered_is_mine() -> None:
    store = Scripted([Try.ANSWERED])
    assert fill(store) is None
    assert store.stored() == MINE


def test_a_slot_that_another_filled_is_returned_as_it_is() -> None:
    other = fill(Scripted([Try.RIVAL_FIRST]))
    assert other is not None
    assert other.data == OTHER


def test_a_create_whose_answer_was_lost_is_recognised_as_mine() -> None:
    store = Scripted([Try.ANSWER_LOST])
    assert fill(store) is None
    assert store.sent == [MINE, MINE]


def test_an_unknown_try_followed_by_a_rival_is_lost() -> None:
    other = fill(Scripted([Try.LOST, Try.RIVAL_FIRST]))
    assert other is not None
    assert other.data == OTHER


def test_a_conflict_without_an_object_is_tried_again() -> None:
    store = Scripted([Try.BUSY, Try.ANSWERED])
    assert fill(store) is None
    assert store.stored() == MINE


def test_tries_that_were_all_refused_certainly_did_not_happen() -> None:
    store = Scripted([Try.REFUSED] * 3)
    with pytest.raises(Unavailable) as caught:
        _ = fill(store)
    assert not caught.value.may_have_applied
    assert store.stored() is None


def test_an_unknown_try_stays_unknown_although_a_later_one_is_refused_and_the_slot_is_empty() -> (
    None
):
    store = Scripted([Try.LOST, Try.REFUSED, Try.REFUSED])
    with pytest.raises(Unavailable) as caught:
        _ = fill(store)
    assert caught.value.may_have_applied
    assert store.stored() is None


def test_unknown_tries_are_settled_by_the_object_that_is_there() -> None:
    store = Scripted([Try.ANSWER_LOST] * 3)
    assert fill(store) is None


def test_a_slot_that_cannot_be_read_leaves_an_unknown_try_unknown() -> None:
    store = Scripted([Try.ANSWER_LOST], readable=False)
    with pytest.raises(Unavailable) as caught:
        _ = fill(store)
    assert caught.value.may_have_applied
    assert store.stored() == MINE


def test_a_taken_slot_that_cannot_be_read_is_certainly_not_mine() -> None:
    store = Scripted([Try.RIVAL_FIRST], readable=False)
    with pytest.raises(Unavailable) as caught:
        _ = fill(store)
    assert not caught.value.may_have_applied


def test_an_object_that_cannot_be_understood_is_neither_mine_nor_anothers() -> None:
    def damaged(data: bytes) -> str:
        raise Corrupt(f"{data!r} is damaged")

    with pytest.raises(Corrupt):
        _ = fill(Scripted([Try.RIVAL_FIRST]), damaged)


def test_my_own_bytes_are_mine_without_being_parsed() -> None:
    def damaged(data: bytes) -> str:
        raise Corrupt(f"{data!r} is damaged")

    assert fill(Scripted([Try.ANSWER_LOST]), damaged) is None


def outcome(store: Scripted) -> Blob | Unavailable | None:
    try:
        return fill(store)
    except Unavailable as error:
        return error


@given(st.lists(st.sampled_from(Try), max_size=6), st.booleans())
def test_no_answer_is_ever_wrong(script: list[Try], readable: bool) -> None:
    store = Scripted(script, readable=readable)
    match outcome(store):
        case None:
            assert store.stored() == MINE
        case Unavailable(may_have_applied=False):
            assert store.stored() != MINE
        case Unavailable():
            assert {Try.LOST, Try.LATE, Try.ANSWER_LOST} & set(script)
        case other:
            assert other.data == store.stored() == OTHER


@given(st.lists(st.sampled_from(Try), max_size=6), st.booleans())
def test_every_try_sends_the_same_bytes_and_there_are_few(
    script: list[Try], readable: bool
) -> None:
    store = Scripted(script, readable=readable)
    _ = outcome(store)
    assert set(store.sent) == {MINE}
    assert len(store.sent) <= 3
