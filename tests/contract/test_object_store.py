"""What `servo.ports.object_store` promises, asked of every adapter."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from itertools import repeat
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import msgspec
import pytest

from servo.errors import Conflict, Invalid, NotFound
from servo.ports.object_store import Blob, ObjectStore
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.testing.seaweed import Seaweed
from servo.workspace.system import SystemClock

MIB = 1024 * 1024

# '-' and '.' sort before '/', digits after it; the last ones take one to four bytes in UTF-8.
NEIGHBOURS = sorted(
    (
        "o/A", "o/a", "o/a+b", "o/a-b", "o/a.b", "o/a0", "o/aa", "o/b c", "o/b-c", "o/b.c",
        "o/b-d/x", "o/b/-", "o/b/x", "o/b/x-", "o/b/y-/z", "o/b/y/z", "o/b/y0", "o/b0", "o/bb/x",
        "o/x=1,y=2:3@", "o/z~", "o/é", "o/日本", "o/\uff5e", "o/\U0001d4b3", "o-/x", "p",
    )
)  # fmt: skip

ESCAPES = (
    "", "/", "/etc/passwd", "a/", "a//b", ".", "..", "../x", "a/../b", "a/..", "./a", "a/./b",
    "a\\b", "..\\x", "a\0b", "a\nb", "a\x7fb", "a\x85b", "%2e%2e/x", "a%2fb", "%252e", "100%",
    "e\u0301", "a\ud800b", "a\ufffeb", "k" * 256, "/".join(["k" * 100] * 10),
)  # fmt: skip


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A store under test. `open` gives one more handle on the same objects."""

    open: Callable[[], ObjectStore]
    contenders: int
    rounds: int


_prefixes = itertools.count()


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    match request.param:
        case "memory":
            memory = MemoryStore(SystemClock())
            return Subject(open=lambda: memory, contenders=64, rounds=100)
        case "local":
            return Subject(open=lambda: LocalStore(tmp_path / "s"), contenders=64, rounds=50)
        case _:
            server: Seaweed = request.getfixturevalue("seaweed_server")
            prefix = f"tests/{next(_prefixes)}"
            return Subject(
                open=lambda: server.store("contract", prefix, clock=SystemClock()),
                contenders=3,  # SeaweedFS takes seconds to decide among more
                rounds=10,
            )


@pytest.fixture
def store(subject: Subject) -> ObjectStore:
    return subject.open()


def race(subject: Subject, attempt: Callable[[ObjectStore, int, int], bool]) -> list[list[int]]:
    """Let every contender try every round at once, each with its own handle; the winners."""
    barrier = Barrier(subject.contenders)
    winners: list[list[int]] = [[] for _ in range(subject.rounds)]

    def contend(who: int) -> None:
        handle = subject.open()
        try:
            for number in range(subject.rounds):
                barrier.wait()
                if attempt(handle, number, who):
                    winners[number].append(who)
        except BrokenBarrierError:
            return
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(subject.contenders) as pool:
        for done in [pool.submit(contend, who) for who in range(subject.contenders)]:
            done.result()
    return winners


def keys(
    store: ObjectStore, prefix: str, *, after: str = "", limit: int | None = None
) -> list[str]:
    return [meta.key for meta in store.list_after(prefix, after=after, limit=limit)]


def names_and_versions(blob: Blob) -> tuple[str, int, str]:
    return blob.meta.key, blob.meta.size, blob.meta.version


# --- racing ---------------------------------------------------------------------------------------


def test_of_racing_creators_exactly_one_wins_and_its_bytes_stay(subject: Subject) -> None:
    def attempt(handle: ObjectStore, number: int, who: int) -> bool:
        try:
            handle.create(f"race/{number}", b"%d" % who)
        except Conflict:
            return False
        return True

    winners = race(subject, attempt)

    assert [len(each) for each in winners] == [1] * subject.rounds
    stored = [int(subject.open().get(f"race/{n}").data) for n in range(subject.rounds)]
    assert stored == [winner for (winner,) in winners]


def test_of_racing_replacers_exactly_one_wins_and_its_bytes_stay(subject: Subject) -> None:
    store = subject.open()
    given = [store.create(f"race/{n}", b"at first").version for n in range(subject.rounds)]

    def attempt(handle: ObjectStore, number: int, who: int) -> bool:
        try:
            handle.replace_if(f"race/{number}", b"%d" % who, version=given[number])
        except Conflict:
            return False
        return True

    winners = race(subject, attempt)

    assert [len(each) for each in winners] == [1] * subject.rounds
    stored = [int(store.get(f"race/{n}").data) for n in range(subject.rounds)]
    assert stored == [winner for (winner,) in winners]


def test_a_counter_that_is_read_and_replaced_by_many_loses_no_increment(subject: Subject) -> None:
    subject.open().create("counter", b"0")

    def attempt(handle: ObjectStore, _: int, __: int) -> bool:
        blob = handle.get("counter")
        try:
            handle.replace_if("counter", b"%d" % (int(blob.data) + 1), version=blob.meta.version)
        except Conflict:
            return False
        return True

    winners = race(subject, attempt)

    assert int(subject.open().get("counter").data) == sum(len(each) for each in winners)
    assert all(winners), "a round in which everyone lost: somebody must have been first"


# --- writing --------------------------------------------------------------------------------------


def test_create_refuses_an_object_that_exists_and_leaves_it_as_it_was(store: ObjectStore) -> None:
    made = store.create("k", b"first")

    with pytest.raises(Conflict):
        store.create("k", b"second")

    assert names_and_versions(store.get("k")) == ("k", 5, made.version)


def test_replace_if_writes_over_the_version_it_was_given(store: ObjectStore) -> None:
    made = store.create("k", b"first")

    replaced = store.replace_if("k", b"second!", version=made.version)

    assert replaced.version != made.version
    assert store.get("k").data == b"second!"
    assert names_and_versions(store.get("k")) == ("k", 7, replaced.version)


def test_replace_if_refuses_a_version_that_has_passed(store: ObjectStore) -> None:
    first = store.create("k", b"first").version
    second = store.replace_if("k", b"second", version=first).version
    store.put("k", b"third")

    for stale in (first, second):
        with pytest.raises(Conflict):
            store.replace_if("k", b"fourth", version=stale)

    assert store.get("k").data == b"third"


def test_replace_if_refuses_an_object_that_is_not_there(store: ObjectStore) -> None:
    version = store.create("k", b"first").version
    store.delete("k")

    with pytest.raises(Conflict):
        store.replace_if("k", b"second", version=version)

    with pytest.raises(NotFound):
        store.get("k")


def test_an_object_can_be_replaced_time_and_again(store: ObjectStore) -> None:
    version = store.create("k", b"0").version

    for number in range(1, 40):
        version = store.replace_if("k", b"%d" % number, version=version).version
        assert store.get("k").data == b"%d" % number

    assert keys(store, "") == ["k"]


def test_put_writes_over_whatever_is_there(store: ObjectStore) -> None:
    versions = [store.put("k", b"first").version, store.put("k", b"second").version]
    versions.append(store.replace_if("k", b"third", version=versions[-1]).version)
    versions.append(store.put("k", b"fourth").version)

    assert store.get("k").data == b"fourth"
    assert len(set(versions)) == 4


def test_an_object_that_was_deleted_can_be_created_again(store: ObjectStore) -> None:
    store.replace_if("k", b"second", version=store.create("k", b"first").version)
    store.delete("k")

    store.create("k", b"third")

    assert store.get("k").data == b"third"


def test_deleting_what_is_not_there_is_no_error(store: ObjectStore) -> None:
    store.create("k", b"x")

    store.delete("k")
    store.delete("k")
    store.delete("folder/never/made")

    with pytest.raises(NotFound):
        store.get("k")
    assert keys(store, "") == []


# --- reading --------------------------------------------------------------------------------------


def test_every_handle_sees_what_another_wrote(subject: Subject) -> None:
    one, other = subject.open(), subject.open()
    version = one.create("f/k", b"first").version
    assert other.get("f/k").data == b"first"

    other.replace_if("f/k", b"second", version=version)
    assert one.get("f/k").data == b"second"

    one.put("f/k", b"third")
    assert other.get("f/k").data == b"third"

    other.delete("f/k")
    assert keys(one, "f/") == []


@pytest.mark.parametrize("size", [0, 1, 8 * MIB])
def test_objects_of_any_size_come_back_whole(store: ObjectStore, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    made = store.create("k", data)

    blob = store.get("k")
    assert blob.data == data
    assert names_and_versions(blob) == ("k", size, made.version)
    assert store.put("other", data).size == size
    assert store.get("other").data == data


@pytest.mark.parametrize(
    ("start", "length", "part"),
    [
        (0, 10, b"0123456789"),
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (8, 4, b"89"),
        (9, 1, b"9"),
        (10, 1, b""),
        (99, 5, b""),
        (0, 0, b""),
        (0, 1000, b"0123456789"),
    ],
)
def test_a_range_is_cut_at_the_end_of_the_object(
    store: ObjectStore, start: int, length: int, part: bytes
) -> None:
    store.create("k", b"0123456789")

    assert store.get_range("k", start=start, length=length) == part


def test_a_range_of_an_empty_object_is_empty(store: ObjectStore) -> None:
    store.create("k", b"")

    assert store.get_range("k", start=0, length=10) == b""


def test_a_range_of_a_replaced_object_is_of_its_newest_bytes(store: ObjectStore) -> None:
    store.replace_if("k", b"second", version=store.create("k", b"first").version)

    assert store.get_range("k", start=1, length=3) == b"eco"


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1)])
def test_a_range_that_runs_backwards_is_refused(
    store: ObjectStore, start: int, length: int
) -> None:
    store.create("k", b"0123456789")

    with pytest.raises(Invalid):
        store.get_range("k", start=start, length=length)


@pytest.mark.parametrize("length", [0, 10])
def test_what_was_never_written_is_not_found(store: ObjectStore, length: int) -> None:
    store.create("folder/k", b"x")

    for key in ("k", "folder", "folder/k2", "folder/k/below"):
        with pytest.raises(NotFound):
            store.get(key)
        with pytest.raises(NotFound):
            store.get_range(key, start=0, length=length)


def test_an_object_knows_when_it_was_written(store: ObjectStore) -> None:
    now = SystemClock().now()
    made = store.create("k", b"x")

    for modified in (made.modified, store.get("k").meta.modified, store.list_after("")[0].modified):
        assert modified.tzinfo == UTC
        assert abs(modified - now) < timedelta(seconds=5)


# --- listing --------------------------------------------------------------------------------------


def test_a_listing_says_of_an_object_what_a_read_says(store: ObjectStore) -> None:
    store.create("f/created", b"1")
    store.put("f/put", b"22")
    store.replace_if("f/replaced", b"4444", version=store.create("f/replaced", b"333").version)

    assert store.list_after("f/") == [
        store.get(key).meta for key in ("f/created", "f/put", "f/replaced")
    ]


def test_a_listing_is_ordered_by_the_bytes_of_the_keys(store: ObjectStore) -> None:
    for key in NEIGHBOURS:
        store.create(key, b"x")

    assert keys(store, "") == sorted(NEIGHBOURS, key=lambda key: key.encode())


def test_a_listing_goes_on_after_any_key_for_any_number(store: ObjectStore) -> None:
    for key in NEIGHBOURS:
        store.create(key, b"x")

    for after in (*NEIGHBOURS, "o", "o/", "o/b", "o/b/y", "o/a~", "o/b/", "a", "zzz"):
        later = [key for key in NEIGHBOURS if key > after]
        assert keys(store, "", after=after) == later
        assert keys(store, "o/", after=after) == [key for key in later if key.startswith("o/")]
        for limit in (0, 1, 2, 5):
            assert keys(store, "", after=after, limit=limit) == later[:limit], (after, limit)


def test_a_prefix_is_the_beginning_of_a_key_not_only_a_folder(store: ObjectStore) -> None:
    for key in NEIGHBOURS:
        store.create(key, b"x")

    for prefix in ("o", "o/", "o/a", "o/b", "o/b/", "o/b/y", "o/b-", "o/日", "p", "q", "o/b/x/"):
        expected = [key for key in NEIGHBOURS if key.startswith(prefix)]
        assert keys(store, prefix) == expected, prefix
        assert keys(store, prefix, limit=2) == expected[:2], prefix


def test_a_listing_longer_than_a_page_is_complete(store: ObjectStore) -> None:
    expected = [f"f/{number:05d}.json" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(store.put, expected, repeat(b"")))
    assert [meta.key for meta in made] == expected

    assert keys(store, "f/") == expected
    assert keys(store, "f/", after=expected[1049]) == expected[1050:]
    assert keys(store, "f/", after=expected[10], limit=1050) == expected[11:1061]


def test_a_listing_shows_whatever_was_written_before_it_began_while_others_write(
    subject: Subject,
) -> None:
    created: list[str] = []

    def write() -> None:
        handle = subject.open()
        for number in range(subject.rounds * 10):
            key = f"f/{number:05d}.json"
            handle.create(key, b"x")
            created.append(key)

    store = subject.open()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            before = list(created)
            listed = keys(store, "f/")
            assert set(before) <= set(listed)
            assert listed == sorted(listed)
        writing.result()
    assert keys(store, "f/") == created


def test_a_listing_with_a_negative_limit_is_refused(store: ObjectStore) -> None:
    with pytest.raises(Invalid):
        store.list_after("", limit=-1)


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ESCAPES)
def test_a_key_that_could_leave_the_root_is_refused_by_every_call(
    store: ObjectStore, key: str
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.get_range(key, start=0, length=1),
        lambda: store.put(key, b"x"),
        lambda: store.create(key, b"x"),
        lambda: store.replace_if(key, b"x", version="1"),
        lambda: store.delete(key),
    ]
    if not key.endswith("/") and key:
        calls += [lambda: store.list_after(key), lambda: store.list_after("", after=key)]

    for call in calls:
        with pytest.raises(Invalid) as refused:
            call()
        assert refused.value.remedy

    assert store.list_after("") == []


@pytest.mark.parametrize(
    "key",
    [
        "a b", "~", "a~b", "#", "a?b", "a&b=c", "a+b", "a*b", "[x]", "{y}", "<z>", "|", '"q"', "'",
        "^", "`", "$", "!", "(1)", ";", "ß/ñ/日本/🦆", "\u202ea", "...", ".hidden", "..a", "a..b",
        "k" * 255, "/".join(["k" * 99] * 9),
    ],
)  # fmt: skip
def test_a_key_that_only_looks_odd_is_kept_as_it_is(store: ObjectStore, key: str) -> None:
    store.create(key, b"odd")

    assert store.get(key).data == b"odd"
    assert keys(store, "") == [key]
    store.delete(key)
    assert keys(store, "") == []
