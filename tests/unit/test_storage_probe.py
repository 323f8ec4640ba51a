"""Stores that break one promise each, and that the probe says which."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from servo.errors import Conflict, Invalid
from servo.ports.object_store import Blob, ObjectMeta, ObjectStore
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.storage.probe import probe
from servo.workspace.system import SystemClock, SystemEntropy


class Counting(MemoryStore):
    """A good store that counts the calls."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.calls = 0

    def get(self, key: str) -> Blob:
        self.calls += 1
        return super().get(key)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        self.calls += 1
        return super().create(key, data)

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        self.calls += 1
        return super().replace_if(key, data, version=version)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        self.calls += 1
        return super().list_after(prefix, after=after, limit=limit)

    def delete(self, key: str) -> None:
        self.calls += 1
        super().delete(key)


class Good(MemoryStore):
    def __init__(self) -> None:
        super().__init__(SystemClock())


class CreateOverwrites(Good):
    def create(self, key: str, data: bytes) -> ObjectMeta:
        return self.put(key, data)


class ReplaceIgnoresVersion(Good):
    def replace_if(
        self,
        key: str,
        data: bytes,
        *,
        version: str,  # noqa: ARG002 - ignoring it is the fault
    ) -> ObjectMeta:
        return self.put(key, data)


class ReplaceOnlyKnowsGivenVersions(Good):
    """Checks that a version was once given, not that it is the present one."""

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        if not version.isdecimal():
            raise Conflict("unknown version")
        return self.put(key, data)


class VersionNeverChanges(Good):
    def create(self, key: str, data: bytes) -> ObjectMeta:
        made = super().create(key, data)
        return ObjectMeta(key=key, size=made.size, modified=made.modified, version="1")

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        if version != "1":
            raise Conflict("unknown version")
        made = self.put(key, data)
        return ObjectMeta(key=key, size=made.size, modified=made.modified, version="1")


class ReadIsStale(Good):
    def get(self, key: str) -> Blob:
        blob = super().get(key)
        return Blob(data=b"before", meta=blob.meta)


class ListMisses(Good):
    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        return super().list_after(prefix, after=after, limit=limit)[1:]


class ListsByFolder(Good):
    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        found = super().list_after(prefix, after=after, limit=limit)
        return sorted(found, key=lambda meta: meta.key.split("/"))


class ListIgnoresAfter(Good):
    def list_after(
        self,
        prefix: str,
        *,
        after: str = "",  # noqa: ARG002 - ignoring it is the fault
        limit: int | None = None,
    ) -> list[ObjectMeta]:
        return super().list_after(prefix, limit=limit)


class ListIgnoresLimit(Good):
    def list_after(
        self,
        prefix: str,
        *,
        after: str = "",
        limit: int | None = None,  # noqa: ARG002 - ignoring it is the fault
    ) -> list[ObjectMeta]:
        return super().list_after(prefix, after=after)


class DeleteDoesNothing(Good):
    def delete(self, key: str) -> None:  # noqa: ARG002 - ignoring it is the fault
        return


BROKEN_AT_ONCE: list[tuple[type[Good], str]] = [
    (CreateOverwrites, "create overwrites"),
    (ReplaceIgnoresVersion, "replace_if overwrites"),
    (ReadIsStale, "a read does not give"),
    (ListMisses, "a listing does not show"),
]
BROKEN = [
    *BROKEN_AT_ONCE,
    (ReplaceOnlyKnowsGivenVersions, "replace_if overwrites an object that has changed"),
    (VersionNeverChanges, "version of an object does not change"),
    (ListsByFolder, "order of the keys"),
    (ListIgnoresAfter, "skips or repeats"),
    (ListIgnoresLimit, "limit"),
    (DeleteDoesNothing, "delete leaves"),
]


@pytest.mark.parametrize(("kind", "complaint"), BROKEN)
def test_a_store_that_breaks_the_contract_is_refused_by_name(
    kind: type[Good], complaint: str
) -> None:
    with pytest.raises(Invalid) as refused:
        probe(kind(), "t/w", SystemEntropy())

    assert complaint in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize(("kind", "complaint"), BROKEN_AT_ONCE)
def test_the_quick_probe_finds_what_would_lose_a_ledger(kind: type[Good], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        probe(kind(), "", SystemEntropy(), quick=True)


@pytest.mark.parametrize("prefix", ["", "t/w", "t/w/"])
@pytest.mark.parametrize("quick", [True, False])
def test_a_store_that_keeps_the_contract_is_left_as_it_was(prefix: str, *, quick: bool) -> None:
    store: ObjectStore = Good()
    store.create("t/w/ledger", b"x")

    probe(store, prefix, SystemEntropy(), quick=quick)

    left: Sequence[ObjectMeta] = store.list_after("")
    assert [meta.key for meta in left] == ["t/w/ledger"]


@pytest.mark.parametrize("kind", [kind for kind, _ in BROKEN if kind is not DeleteDoesNothing])
def test_a_refused_store_is_left_as_it_was(kind: type[Good]) -> None:
    store = kind()

    with pytest.raises(Invalid):
        probe(store, "", SystemEntropy())

    assert Good.list_after(store, "") == []


def test_a_folder_is_probed_again_and_again_without_growing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    probe(store, "", SystemEntropy())
    left = sorted(tmp_path.rglob("*"))

    probe(store, "", SystemEntropy())

    assert sorted(tmp_path.rglob("*")) == left


def test_the_quick_probe_costs_six_calls() -> None:
    store = Counting()

    probe(store, "t/w", SystemEntropy(), quick=True)

    assert store.calls == 6
