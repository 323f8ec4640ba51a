"""The local store under real deaths: processes killed anywhere, and a disk that is full.

What a child was told is durable it says on its standard output, and only then. Whatever it said
before it was killed must be there, whole; whatever else is visible must be whole too. (A killed
process leaves the kernel's cache behind; that the store flushes in the right order, which is what
counts when the power fails, is tested with its calls.)
"""

import hashlib
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from servo.errors import NotFound, Unavailable
from servo.storage.local import LocalStore
from servo.workspace.system import SystemClock

KILLS = 36

CHILD = """
import hashlib, itertools, sys
from servo.errors import Conflict, NotFound
from servo.storage.local import LocalStore

root, life = sys.argv[1], int(sys.argv[2])
store = LocalStore(root)

def whole(number):
    body = b"%d " % number * (1 + number * 7919 % 20_000)
    return hashlib.sha256(body).hexdigest().encode() + b" %d %d\\n" % (life, number) + body

def say(line):
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()

try:
    version = store.create("lease", whole(0)).version
except Conflict:
    version = store.get("lease").meta.version
for number in itertools.count(1):
    key = f"objects/{life:03d}/{number % 5}/{number:06d}"
    store.create(key, whole(number))
    say(key)
    store.put("hint", whole(number))
    say(f"hint {life} {number}")
    version = store.replace_if("lease", whole(number), version=version).version
    say(f"lease {life} {number}")
"""


def check(data: bytes) -> tuple[int, int]:
    """Which life wrote the object, and as which; fails if a byte is missing."""
    head, _, body = data.partition(b"\n")
    digest, life, number = head.split(b" ")
    assert hashlib.sha256(body).hexdigest().encode() == digest, "a part of an object is visible"
    return int(life), int(number)


class Reader(threading.Thread):
    """Reads whatever is visible, for as long as it lives."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.seen: set[str] = set()
        self.failure: BaseException | None = None
        self._store = LocalStore(root)

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                for meta in self._store.list_after("objects/"):
                    if meta.key not in self.seen:
                        check(self._store.get(meta.key).data)
                        self.seen.add(meta.key)
                for key in ("hint", "lease"):
                    self._read(key)
        except BaseException as failure:  # noqa: BLE001 - reported by the test
            self.failure = failure

    def _read(self, key: str) -> None:
        try:
            check(self._store.get(key).data)
        except NotFound:
            return


def live_and_die(root: Path, life: int, lines: int) -> list[str]:
    """Start a child, kill it when it has said so many lines; all it ever said."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), str(life)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout as output:
        said = [output.readline() for _ in range(lines)]
        child.kill()
        said += output.readlines()
    assert child.wait() == -9, "the child died before it was killed"
    # The last line may have been cut off by the kill; the write before it had returned.
    return [line.removesuffix("\n") for line in said if line.endswith("\n")]


@pytest.mark.kill
@pytest.mark.slow
def test_whatever_a_killed_process_was_told_is_there_and_nothing_is_there_in_part(
    tmp_path: Path, chance_seed: int
) -> None:
    chance = random.Random(chance_seed)
    reader = Reader(tmp_path)
    reader.start()
    acknowledged: list[str] = []

    for life in range(KILLS):
        said = live_and_die(tmp_path, life, chance.randrange(1, 40))
        assert said
        acknowledged += [line for line in said if line.startswith("objects/")]
        store = LocalStore(tmp_path)
        for key in ("hint", "lease"):
            told = [line.split(" ")[1:] for line in said if line.startswith(key)]
            if told:
                assert check(store.get(key).data) >= (life, int(told[-1][1]))

    reader.stop.set()
    reader.join()
    assert reader.failure is None
    assert len(reader.seen) > KILLS
    store = LocalStore(tmp_path)
    visible = [meta.key for meta in store.list_after("objects/")]
    assert set(acknowledged) <= set(visible)
    assert len(visible) <= len(acknowledged) + KILLS
    for key in visible:
        _, life, _, number = key.split("/")
        assert check(store.get(key).data) == (int(life), int(number))

    store.sweep_temporaries(SystemClock().now() + timedelta(days=1))
    assert list((tmp_path / ".tmp").iterdir()) == []
    assert [meta.key for meta in store.list_after("objects/")] == visible


@pytest.fixture
def small_disk(mount_disk: Callable[[str], Path]) -> Path:
    """A filesystem of one MiB."""
    return mount_disk("size=1m,nr_inodes=200")


def fill(store: LocalStore, size: int) -> tuple[list[str], Unavailable]:
    keys: list[str] = []
    while len(keys) < 10_000:
        key = f"f/{len(keys):05d}"
        try:
            store.create(key, b"x" * size)
        except Unavailable as full:
            return keys, full
        keys.append(key)
    raise AssertionError("the disk never filled up")


@pytest.mark.parametrize("size", [100_000, 0], ids=["no space", "no inodes"])
def test_a_full_disk_refuses_the_write_keeps_the_rest_and_goes_on_when_there_is_space(
    small_disk: Path, size: int
) -> None:
    store = LocalStore(small_disk)
    keys, full = fill(store, size)

    assert keys
    assert not full.may_have_applied
    assert f"free space on the filesystem of {small_disk}" in full.remedy
    assert [meta.key for meta in store.list_after("")] == keys
    assert all(store.get(key).data == b"x" * size for key in keys)
    assert list((small_disk / ".tmp").iterdir()) == []

    store.delete(keys.pop())
    store.create("f/again", b"x" * size)
    assert [meta.key for meta in store.list_after("")] == [*keys, "f/again"]


def test_a_disk_mounted_for_reading_is_read_and_refuses_writes(small_disk: Path) -> None:
    store = LocalStore(small_disk)
    store.create("f/k", b"x")
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)

    for write in (store.create, store.put):
        with pytest.raises(Unavailable, match="for writing") as refused:
            write("f/new", b"x")
        assert not refused.value.may_have_applied

    for reader in (store, LocalStore(small_disk)):
        assert reader.get("f/k").data == b"x"
        assert [meta.key for meta in reader.list_after("")] == ["f/k"]
