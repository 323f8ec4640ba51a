"""One process holds the lock of a workspace, and keeps it although its file is deleted."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from servo.errors import Corrupt, Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.workspace.address import Address
from servo.workspace.leader_lock import LeaderLock, LockState, leader_here, lock_of
from servo.workspace.registry import machine_id, registry_folder

BUCKET = Address("s3://bucket")
FIRST, SECOND = LeaderAdvert(pid=1), LeaderAdvert(pid=2)


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture(params=["folder", "bucket"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    return BUCKET if request.param == "bucket" else Address.of(str(tmp_path / "store"))


def lock_file(address: Address) -> Path:
    folder = Path(address.store) / ".locks" if address.is_local else registry_folder()
    (found,) = folder.glob("*.leader")
    return found


def test_one_process_has_the_lock_until_it_releases_it(address: Address) -> None:
    first, second = LeaderLock(address), LeaderLock(address)
    assert first.acquire()
    assert not second.acquire()
    first.advertise(FIRST)
    assert (leader_here(address), first.keep()) == (FIRST, LockState.KEPT)
    first.release()
    assert leader_here(address) is None
    assert second.acquire()
    second.release()


def test_a_deleted_file_is_made_again_by_whoever_holds_it(address: Address) -> None:
    first, second = LeaderLock(address), LeaderLock(address)
    assert first.acquire()
    for _ in range(3):
        before = first.inode
        lock_file(address).unlink()
        assert first.keep() is LockState.RESTORED
        assert first.inode != before, "a lease that names the old file does not mean the new one"
        first.advertise(FIRST)
        assert leader_here(address) == FIRST
        assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_a_deleted_file_that_another_process_made_again_is_taken_once_that_process_leads(
    address: Address,
) -> None:
    first, second = LeaderLock(address), LeaderLock(address)
    assert first.acquire()
    first.advertise(FIRST)
    lock_file(address).unlink()
    assert second.acquire()
    assert first.keep() is LockState.KEPT, "it may still find that there is a leader, and let go"
    second.advertise(SECOND)
    assert first.keep() is LockState.TAKEN
    second.release()
    assert first.keep() is LockState.RESTORED
    first.release()


def test_files_whose_numbers_change_are_no_reason_to_give_up(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(*_: object) -> bool:
        return False

    monkeypatch.setattr(os.path, "samestat", differ)
    lock = LeaderLock(address)
    assert lock.acquire()
    lock.advertise(FIRST)
    assert lock.keep() is LockState.KEPT
    assert leader_here(address) == FIRST
    lock.release()


def test_a_lock_that_cannot_be_opened_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(Unavailable, match=r"store/\.locks"):
        _ = LeaderLock(Address.of(str(tmp_path / "store"))).acquire()


def test_the_lock_of_a_leader_is_the_file_that_it_names_and_no_later_one() -> None:
    lock = LeaderLock(BUCKET)
    assert lock.acquire()
    leader = LeaderAdvert(pid=1, machine=machine_id(), lock=lock.name, lock_inode=lock.inode)
    assert lock_of(leader) == lock_file(BUCKET)
    assert lock.was_held_by(leader)
    lock_file(BUCKET).unlink()
    assert lock_of(leader) is None
    assert lock.keep() is LockState.RESTORED
    assert lock_of(leader) is None
    assert not lock.was_held_by(leader)
    lock.release()


@pytest.mark.parametrize(
    "changes", [{"machine": "another"}, {"lock": ""}, {"lock": "../machine"}, {"lock": ".."}]
)
def test_a_leader_elsewhere_or_without_a_lock_has_none_here(changes: dict[str, str]) -> None:
    lock = LeaderLock(BUCKET)
    assert lock.acquire()
    leader = LeaderAdvert(pid=1, machine=machine_id(), lock=lock.name, lock_inode=lock.inode)
    assert lock_of(replace(leader, **changes)) is None
    lock.release()


def test_a_leader_whose_folder_was_deleted_is_told_so_and_makes_no_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    lock = LeaderLock(Address.of(str(folder)))
    assert lock.acquire()
    assert lock.keep() is LockState.KEPT
    shutil.rmtree(folder)
    with pytest.raises(Corrupt, match=f"the folder {folder} of the store was deleted"):
        _ = lock.keep()
    assert not folder.exists()
    lock.release()
