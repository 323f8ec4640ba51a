"""What the local store promises beyond the contract: its files, its folders, its rubbish."""

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from servo.errors import Conflict, Corrupt, Invalid, NotFound, ServoError, Unavailable
from servo.storage.local import LocalStore
from servo.storage.local_errors import Disk
from servo.storage.local_swaps import KEEP
from servo.workspace.system import SystemClock

LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
NOON = 1_767_268_800_000_000_000  # nanoseconds


def tomorrow() -> datetime:
    return SystemClock().now() + timedelta(days=1)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def age(path: Path) -> None:
    os.utime(path, (0, 0))


# --- files and folders ----------------------------------------------------------------------------


def test_an_object_is_a_file_at_the_path_of_its_key(tmp_path: Path) -> None:
    LocalStore(tmp_path).create("ledger/orchestration/1.json", b"x")

    assert files(tmp_path) == ["ledger/orchestration/1.json"]
    assert (tmp_path / "ledger/orchestration/1.json").read_bytes() == b"x"


def test_a_file_put_there_by_hand_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f/k").write_bytes(b"by hand")
    store = LocalStore(tmp_path)

    blob = store.get("f/k")

    assert blob.data == b"by hand"
    assert store.list_after("") == [blob.meta]
    store.replace_if("f/k", b"replaced", version=blob.meta.version)
    assert store.get("f/k").data == b"replaced"


def test_a_file_whose_name_is_no_key_is_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("good", b"x")
    (tmp_path / "50%").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).write_bytes(b"x")

    assert [meta.key for meta in store.list_after("")] == ["good"]


@pytest.mark.parametrize("key", [".tmp", ".tmp/x", ".swaps", ".swaps/k"])
def test_the_folders_the_store_keeps_to_itself_hold_no_keys(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path)
    version = store.create("k", b"first").version
    store.replace_if("k", b"second", version=version)
    (tmp_path / ".tmp/left").write_bytes(b"x")

    with pytest.raises(Invalid):
        store.create(key, b"x")
    with pytest.raises(Invalid):
        store.get(key)
    assert store.list_after(key) == []
    assert store.list_after(f"{key}/") == []
    assert [meta.key for meta in store.list_after("")] == ["k"]


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")])
def test_no_object_is_a_folder_of_another(tmp_path: Path, first: str, second: str) -> None:
    store = LocalStore(tmp_path)
    store.create(first, b"x")

    for write in (store.create, store.put):
        with pytest.raises(Invalid) as refused:
            write(second, b"y")
        assert refused.value.remedy

    with pytest.raises(NotFound):
        store.get(second)
    store.delete(second)
    assert [meta.key for meta in store.list_after("")] == [first]
    store.delete(first)
    store.create(second, b"y")
    assert [meta.key for meta in store.list_after("")] == [second]


def test_a_pipe_at_the_place_of_an_object_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k")
    store = LocalStore(tmp_path)

    with pytest.raises(NotFound):
        store.get("k")
    assert store.list_after("") == []


def test_a_link_that_leads_outside_is_refused_and_nothing_outside_changes(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    store = LocalStore(root)
    (root / "out").symlink_to(outside)

    calls: list[Callable[[], object]] = [
        lambda: store.get("out/secret"),
        lambda: store.create("out/new", b"x"),
        lambda: store.put("out/secret", b"x"),
        lambda: store.replace_if("out/secret", b"x", version="v"),
        lambda: store.delete("out/secret"),
        lambda: store.list_after("out/"),
    ]
    for call in calls:
        with pytest.raises(Invalid, match="symbolic link"):
            call()

    assert store.list_after("") == []
    store.sweep_temporaries(tomorrow())
    assert files(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_link_in_place_of_an_object_is_neither_read_nor_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    store = LocalStore(tmp_path / "root")
    (tmp_path / "root/k").symlink_to(secret)

    with pytest.raises(Invalid, match="symbolic link"):
        store.get("k")
    with pytest.raises(Conflict):
        store.create("k", b"x")
    assert store.list_after("") == []

    store.put("k", b"x")
    assert store.get("k").data == b"x"
    assert secret.read_bytes() == b"secret"


def test_the_root_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    LocalStore(tmp_path / "link").create("k", b"x")

    assert (tmp_path / "real/k").exists()


def test_a_store_whose_root_was_deleted_writes_nothing_into_a_new_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = LocalStore(root)
    store.create("f/k", b"x")
    shutil.rmtree(root)

    with pytest.raises(Corrupt, match="was deleted while it was in use"):
        store.create("f/k", b"x")

    root.mkdir()
    for write in (store.create, store.put):
        with pytest.raises(Corrupt, match="was deleted while it was in use"):
            write("f/k", b"again")
    assert list(LocalStore(root).list_after("")) == []


def test_open_folders_are_few_however_many_there_are(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = LocalStore(tmp_path)

    for number in range(200):
        store.create(f"f/{number}/k", b"x")

    assert len(list(Path("/proc/self/fd").iterdir())) - before < 140
    assert len(store.list_after("")) == 200


def test_a_closed_folder_is_not_used_by_a_thread_that_had_it(tmp_path: Path) -> None:
    # More folders than are kept open, from many threads: each has its folder dropped under it.
    store = LocalStore(tmp_path)

    def write(number: int) -> None:
        store.create(f"{number % 150}/{number}", b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(write, range(600)))

    assert len(done) == 600
    for meta in store.list_after(""):
        folder, _, name = meta.key.partition("/")
        assert int(folder) == int(name) % 150
        assert store.get(meta.key).data == name.encode()


# --- durability and cost --------------------------------------------------------------------------


class Recorder:
    """Stands before functions of `os` and writes down their names and what file they met."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
        self.calls: list[str] = []
        for name in names:
            monkeypatch.setattr(os, name, self._recorded(name, getattr(os, name)))

    def _recorded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if name == "fsync":
                flushed = Path(f"/proc/self/fd/{args[0]}").readlink()
                self.calls.append(f"fsync {'file' if '.tmp' in flushed.parts else flushed.name}")
            else:
                self.calls.append(name)
            return call(*args, **kwargs)

        return recorded


def test_a_create_flushes_the_bytes_then_links_then_flushes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a/b/1", b"x")
    recorder = Recorder(monkeypatch, ["fsync", "link", "unlink"])

    store.create("a/b/2", b"x")

    assert recorder.calls == ["fsync file", "link", "fsync b", "unlink"]


def test_a_put_flushes_the_bytes_then_renames_then_flushes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "root")
    store.put("a/b/1", b"x")
    recorder = Recorder(monkeypatch, ["fsync", "rename"])

    store.put("a/b/1", b"x")

    assert recorder.calls == ["fsync file", "rename", "fsync b"]


def test_new_folders_are_flushed_into_their_parents_before_anything_is_linked_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalStore(tmp_path / "root").create("a/b/1", b"x")
    # A store opened later cannot know whether whoever made the folders lived to flush them.
    store = LocalStore(tmp_path / "root")
    recorder = Recorder(monkeypatch, ["fsync", "link"])

    store.create("a/b/2", b"x")

    assert recorder.calls == [
        "fsync root",
        "fsync file",
        "fsync root",
        "fsync a",
        "link",
        "fsync b",
    ]


def test_a_conflict_is_answered_only_about_an_object_that_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a/1", b"x")
    recorder = Recorder(monkeypatch, ["fsync", "link"])

    with pytest.raises(Conflict):
        store.create("a/1", b"y")

    assert recorder.calls == ["fsync file", "link", "fsync a"]


def test_a_delete_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a/1", b"x")
    recorder = Recorder(monkeypatch, ["fsync", "unlink"])

    store.delete("a/1")

    assert recorder.calls == ["unlink", "fsync a"]


def test_a_create_in_a_known_folder_makes_no_call_besides_those_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.create("a/b/c/1", b"x")
    recorder = Recorder(
        monkeypatch,
        ["open", "mkdir", "stat", "scandir", "listdir", "link", "write", "unlink", "rename"],
    )

    store.create("a/b/c/2", b"x")

    assert recorder.calls == ["open", "write", "link", "unlink"]


def test_a_listing_looks_only_at_the_files_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    names = [f"{number:020d}.json" for number in range(3000)]
    for name in names:
        (folder / name).touch()
    store = LocalStore(tmp_path)
    recorder = Recorder(monkeypatch, ["stat"])

    listed = store.list_after("ledger/", after=f"ledger/{names[1233]}", limit=10)

    assert [meta.key for meta in listed] == [f"ledger/{name}" for name in names[1234:1244]]
    assert len(recorder.calls) == 10


def test_versions_differ_even_between_writes_in_one_tick_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def write_at_noon(fd: int, data: bytes) -> int:
        written = write(fd, data)
        os.utime(fd, ns=(NOON, NOON))
        return written

    monkeypatch.setattr(os, "write", write_at_noon)
    store = LocalStore(tmp_path)
    versions: list[str] = []
    for number in range(50):
        versions.append(store.create("k", b"%03d" % number).version)
        versions.append(store.put("k", b"%03d" % number).version)
        store.delete("k")

    assert len(set(versions)) == 100


def test_the_time_of_an_object_is_the_time_of_its_file_give_or_take_a_tick(tmp_path: Path) -> None:
    before = SystemClock().now()
    store = LocalStore(tmp_path)

    made = store.create("k", b"x")

    tick = timedelta(milliseconds=34)
    assert before - tick <= made.modified <= SystemClock().now() + tick
    assert store.get("k").meta == made


# --- swaps ----------------------------------------------------------------------------------------


def test_only_the_last_swaps_are_kept(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    version = store.create("f/k", b"0").version

    for number in range(1, 3 * KEEP):
        version = store.replace_if("f/k", b"%d" % number, version=version).version

    assert len(files(tmp_path / ".swaps")) == KEEP
    assert LocalStore(tmp_path).get("f/k").data == b"%d" % (3 * KEEP - 1)


def test_a_swap_linked_long_after_its_number_was_used_is_not_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    base = store.create("k", b"0").version
    version = base
    for number in range(1, 3 * KEEP):
        version = store.replace_if("k", b"%d" % number, version=version).version

    (tmp_path / f".swaps/k/{base}@1").write_bytes(b"from a writer that slept")

    assert store.get("k").data == b"%d" % (3 * KEEP - 1)
    store.replace_if("k", b"next", version=version)
    assert store.get("k").data == b"next"


def test_writers_of_every_kind_on_one_key_agree_on_who_was_last(tmp_path: Path) -> None:
    """Each value that is read came from a writer that was not told it had lost."""
    lost: set[bytes] = set()
    unknowns: list[bool] = []
    seen: list[bytes] = []
    LocalStore(tmp_path).create("k", b"at first")

    def put(who: int) -> None:
        store = LocalStore(tmp_path)
        for number in range(60):
            store.put("k", b"put %d %d" % (who, number))
            seen.append(store.get("k").data)

    def replace(who: int) -> None:
        store = LocalStore(tmp_path)
        for number in range(120):
            blob = store.get("k")
            mine = b"replace %d %d" % (who, number)
            try:
                store.replace_if("k", mine, version=blob.meta.version)
            except Conflict:
                lost.add(mine)
            except Unavailable as unknown:
                unknowns.append(unknown.may_have_applied)
            seen.append(store.get("k").data)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(write, who) for who in range(4) for write in (put, replace)]:
            done.result()

    assert lost
    assert all(unknowns)
    assert not lost & set(seen)


# --- sweeping -------------------------------------------------------------------------------------


def test_what_a_crash_left_is_swept_by_its_age_and_never_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("f/k", b"x")
    (tmp_path / ".tmp/old").write_bytes(b"half")
    age(tmp_path / ".tmp/old")
    (tmp_path / ".tmp/young").write_bytes(b"half")
    assert [meta.key for meta in store.list_after("")] == ["f/k"]

    assert store.sweep_temporaries(SystemClock().now() - timedelta(hours=1)) == 1

    assert files(tmp_path) == [".tmp/young", "f/k"]
    assert store.sweep_temporaries(tomorrow()) == 1
    assert files(tmp_path) == ["f/k"]


def test_swaps_of_an_object_that_is_gone_are_swept_and_those_in_use_stay(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for key in ("f/kept", "f/put", "f/deleted"):
        store.replace_if(key, b"second", version=store.create(key, b"first").version)
    store.put("f/put", b"third")
    store.delete("f/deleted")
    assert not (tmp_path / ".swaps/f/deleted").exists()
    assert store.sweep_temporaries(LONG_AGO) == 0

    assert store.sweep_temporaries(tomorrow()) == 1

    assert store.get("f/kept").data == b"second"
    assert store.get("f/put").data == b"third"
    assert [meta.key for meta in store.list_after("")] == ["f/kept", "f/put"]


def test_empty_folders_are_swept_by_their_age(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a/b/c/k", b"x")
    store.create("a/d/k", b"x")
    store.delete("a/b/c/k")

    store.sweep_temporaries(SystemClock().now() - timedelta(hours=1))
    assert (tmp_path / "a/b/c").is_dir()
    store.sweep_temporaries(tomorrow())

    assert not (tmp_path / "a/b").exists()
    assert (tmp_path / "a/d/k").exists()


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_handle_whose_folder_was_swept_makes_it_again(tmp_path: Path, write: str) -> None:
    store = LocalStore(tmp_path)
    store.create("a/b/1", b"x")
    other = LocalStore(tmp_path)
    other.delete("a/b/1")
    other.sweep_temporaries(tomorrow())

    getattr(store, write)("a/b/2", b"y")
    other.create("a/b/3", b"z")

    assert [meta.key for meta in store.list_after("")] == ["a/b/2", "a/b/3"]


def test_a_handle_whose_folder_was_swept_and_made_again_reads_and_deletes_in_the_new_one(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    store.create("a/1", b"x")
    other = LocalStore(tmp_path)
    other.delete("a/1")
    other.sweep_temporaries(tomorrow())
    other.create("a/1", b"y")

    assert store.get("a/1").data == b"y"
    store.delete("a/1")
    with pytest.raises(NotFound):
        other.get("a/1")


# --- failing disks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (errno.ENOSPC, Unavailable, "free space on the filesystem of /root-of-store"),
        (errno.EDQUOT, Unavailable, "quota"),
        (errno.EROFS, Unavailable, "for writing"),
        (errno.EIO, Unavailable, "check the disk"),
        (errno.EMFILE, Unavailable, "ulimit"),
        (errno.ESTALE, Unavailable, "check /root-of-store"),
        (errno.EACCES, Invalid, "permission"),
        (errno.EXDEV, Invalid, "hard links"),
    ],
)
def test_what_a_disk_refuses_says_what_to_do(
    code: int, kind: type[ServoError], remedy: str
) -> None:
    disk = Disk("/root-of-store")

    with pytest.raises(kind) as refused, disk("write", "k"):
        raise OSError(code, os.strerror(code))

    assert remedy in refused.value.remedy
    assert not getattr(refused.value, "may_have_applied", False)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_a_failure_after_the_link_leaves_the_outcome_open(code: int) -> None:
    disk = Disk("/root-of-store")

    with pytest.raises(Unavailable) as refused, disk("flush", "k", may_have_applied=True):
        raise OSError(code, os.strerror(code))

    assert refused.value.may_have_applied


@pytest.mark.parametrize(("code", "applied"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_link_that_failed_for_want_of_space_certainly_did_not_happen(
    code: int, *, applied: bool
) -> None:
    disk = Disk("/root-of-store")

    with pytest.raises(Unavailable) as refused, disk("write", "k", may_have_applied=None):
        raise OSError(code, os.strerror(code))

    assert refused.value.may_have_applied == applied


@pytest.mark.parametrize(
    ("call", "applied"),
    [("write", False), ("fsync", False), ("link", True), ("rename", True), ("unlink", True)],
)
def test_an_error_of_the_disk_says_whether_the_write_can_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, *, applied: bool
) -> None:
    store = LocalStore(tmp_path)
    store.create("f/k", b"x")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    write: dict[str, Callable[[], object]] = {
        "unlink": lambda: store.delete("f/k"),
        "rename": lambda: store.put("f/new", b"x"),
    }
    with pytest.raises(Unavailable) as refused:
        write.get(call, lambda: store.create("f/new", b"x"))()

    assert refused.value.may_have_applied == applied
    assert files(tmp_path) == ["f/k"]


def test_a_folder_that_cannot_be_flushed_after_the_link_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.create("f/k", b"x")
    flushes: list[int] = []

    def fail_the_second(fd: int) -> None:
        flushes.append(fd)
        if len(flushes) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail_the_second)
    with pytest.raises(Unavailable) as refused:
        store.create("f/new", b"x")

    assert refused.value.may_have_applied
    assert store.get("f/new").data == b"x"
