"""Stores against a dictionary: any sequence of calls, through two handles on the same objects.

The keys are few and close, so that every run overwrites, deletes, recreates and lists around
folders that have become empty. `a` and `a/b` cannot both be objects in these two stores; whichever
comes second is refused.
"""

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from servo.errors import Conflict, Invalid, NotFound
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.workspace.system import SystemClock

KEYS = ("a", "a/b", "a/b/c", "a/b-", "a/b.", "a/b0", "a-", "a.x", "a0", "z/é", "z/z/z/z")
PREFIXES = ("", "a", "a/", "a/b", "a/b/", "z/", "z/z", "q", *KEYS)

data = st.binary(max_size=3)
keys = st.sampled_from(KEYS)


def outcome(call: Callable[[], ObjectMeta]) -> ObjectMeta | type[Exception]:
    try:
        return call()
    except (Conflict, Invalid, NotFound) as error:
        return type(error)


class StoreMachine(RuleBasedStateMachine):
    """The model is `self.objects`; `self.versions` holds what the store said of each."""

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.handles = self.open_two()
        self.objects: dict[str, bytes] = {}
        self.current: dict[str, str] = {}

    def open_two(self) -> tuple[ObjectStore, ObjectStore]:
        raise NotImplementedError

    def nests(self, key: str) -> bool:
        return key not in self.objects and any(
            other.startswith(f"{key}/") or key.startswith(f"{other}/") for other in self.objects
        )

    def wrote(self, key: str, value: bytes, meta: ObjectMeta | type[Exception]) -> str:
        assert isinstance(meta, ObjectMeta)
        assert (meta.key, meta.size) == (key, len(value))
        assert meta.version != self.current.get(key)
        self.objects[key] = value
        self.current[key] = meta.version
        return meta.version

    @rule(target=versions, key=keys, value=data, who=st.integers(0, 1))
    def create(self, key: str, value: bytes, who: int) -> str:
        got = outcome(lambda: self.handles[who].create(key, value))
        if key in self.objects:
            assert got is Conflict
            return self.current[key]
        if self.nests(key):
            assert got is Invalid
            return "none"
        return self.wrote(key, value, got)

    @rule(target=versions, key=keys, value=data, who=st.integers(0, 1))
    def put(self, key: str, value: bytes, who: int) -> str:
        got = outcome(lambda: self.handles[who].put(key, value))
        if self.nests(key):
            assert got is Invalid
            return "none"
        return self.wrote(key, value, got)

    @rule(key=keys, value=data, who=st.integers(0, 1), version=versions)
    def replace_any_version(self, key: str, value: bytes, who: int, version: str) -> None:
        got = outcome(lambda: self.handles[who].replace_if(key, value, version=version))
        if self.current.get(key) == version:
            self.wrote(key, value, got)
        else:
            assert got is Conflict

    @rule(target=versions, key=keys, value=data, who=st.integers(0, 1))
    def replace(self, key: str, value: bytes, who: int) -> str:
        version = self.current.get(key, "none")
        got = outcome(lambda: self.handles[who].replace_if(key, value, version=version))
        if key in self.objects:
            return self.wrote(key, value, got)
        assert got is Conflict
        return "none"

    @rule(key=keys, who=st.integers(0, 1))
    def delete(self, key: str, who: int) -> None:
        self.handles[who].delete(key)
        self.objects.pop(key, None)
        self.current.pop(key, None)

    @rule(key=keys, who=st.integers(0, 1), start=st.integers(0, 4), length=st.integers(0, 4))
    def read(self, key: str, who: int, start: int, length: int) -> None:
        store = self.handles[who]
        if key not in self.objects:
            assert outcome(lambda: store.get(key).meta) is NotFound
            return
        blob = store.get(key)
        assert (blob.data, blob.meta.version) == (self.objects[key], self.current[key])
        part = self.objects[key][start : start + length]
        assert store.get_range(key, start=start, length=length) == part

    @rule(
        prefix=st.sampled_from(PREFIXES),
        after=st.sampled_from(PREFIXES),
        limit=st.none() | st.integers(0, 4),
        who=st.integers(0, 1),
    )
    def list(self, prefix: str, after: str, limit: int | None, who: int) -> None:
        listed = self.handles[who].list_after(prefix, after=after, limit=limit)
        expected = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        assert [(meta.key, meta.size, meta.version) for meta in listed] == [
            (key, len(self.objects[key]), self.current[key]) for key in expected[:limit]
        ]

    @invariant()
    def nothing_else_is_listed(self) -> None:
        listed = [meta.key for meta in self.handles[0].list_after("")]
        assert listed == sorted(self.objects)


class MemoryMachine(StoreMachine):
    def open_two(self) -> tuple[ObjectStore, ObjectStore]:
        store = MemoryStore(SystemClock())
        return store, store


class LocalMachine(StoreMachine):
    def open_two(self) -> tuple[ObjectStore, ObjectStore]:
        self.root = tempfile.mkdtemp(prefix="servo-model-")
        return LocalStore(self.root), LocalStore(self.root)

    @rule()
    def sweep_everything_that_is_rubbish(self) -> None:
        tomorrow = SystemClock().now() + timedelta(days=1)
        LocalStore(self.root).sweep_temporaries(tomorrow)

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestMemoryStoreAsADictionary = MemoryMachine.TestCase
TestMemoryStoreAsADictionary.settings = settings(stateful_step_count=40)

TestLocalStoreAsADictionary = LocalMachine.TestCase
TestLocalStoreAsADictionary.settings = settings(stateful_step_count=40)
