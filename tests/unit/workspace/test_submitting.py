"""Whoever leads, a request is answered with what became of it, and a healthy leader stays."""

import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from servo.config import Settings
from servo.core.events.envelope import Batch
from servo.core.events.quotas import PoolLimitSet
from servo.core.events.runs import RunCancelRequested, RunRequested
from servo.core.state.rows.execution import RunRow
from servo.core.state.rows.system import QuotaRow
from servo.errors import Conflict, Fenced, Unavailable
from servo.leader.leases.lease import LeaderAdvert, Lease, read_lease
from servo.ports.object_store import Blob, ObjectMeta
from servo.ports.world import World
from servo.projection.read.lookup import Lookup
from servo.storage.memory import MemoryStore
from servo.testing.eventually import eventually
from servo.workspace import answering, channels
from servo.workspace.address import Address
from servo.workspace.answering import check_answers
from servo.workspace.channels import AnyChannel, InboxChannel
from servo.workspace.composition import open_to_read, open_world
from servo.workspace.leader_lock import Leader, LeaderLock, leader_here
from servo.workspace.leader_socket import server
from servo.workspace.leading import Led, try_to_lead, who_leads
from servo.workspace.receipt import ReceiptStatus
from servo.workspace.registry import machine_id, registry_folder
from servo.workspace.system import SystemClock, SystemEntropy
from servo.workspace.workspace import Workspace, open_workspace

FAST = Settings(inbox_every=timedelta(milliseconds=20), publish_every=timedelta(milliseconds=20))
BUCKET = Address("s3://bucket")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_on(monkeypatch, tmp_path / "a")


def be_on(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Be a process of another machine: one with a registry of its own."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))


@pytest.fixture
def address(tmp_path: Path) -> Address:
    (tmp_path / "store").mkdir()
    return Address.of(str(tmp_path / "store"))


@pytest.fixture
def bucket() -> World:
    """A store that other machines can reach."""
    return World(MemoryStore(SystemClock()), SystemClock(), SystemEntropy())


@contextmanager
def leading(address: Address, world: World) -> Generator[Led]:
    led = try_to_lead(address, world, settings=FAST, leader=Leader(stays=True))
    assert led is not None
    with led:
        yield led


def workspace_on(address: Address, world: World) -> Workspace:
    return Workspace(address, world, AnyChannel(address, world))


def limit(number: int) -> PoolLimitSet:
    return PoolLimitSet(pool="db", limit=number)


def limits(workspace: Workspace, min_seq: int = 0) -> list[int | None]:
    rows = workspace.read(lambda snapshot: snapshot.rows("quotas"), min_seq=min_seq)
    return [row.max_concurrent_tasks for row in rows if isinstance(row, QuotaRow)]


# --- nobody leads ---------------------------------------------------------------------------------


def test_with_nobody_leading_a_request_is_applied_and_can_be_read(address: Address) -> None:
    workspace = open_workspace(address)
    receipt = workspace.submit(limit(3))
    assert (receipt.status, receipt.seq > 0) == (ReceiptStatus.APPLIED, True)
    assert limits(workspace, receipt.seq) == [3]
    assert leader_here(address) is None


def test_a_refusal_is_told_with_its_reason_and_is_no_dead_letter(address: Address) -> None:
    workspace = open_workspace(address)
    receipt = workspace.submit(RunCancelRequested(run_id="run_unknown"))
    assert receipt.status is ReceiptStatus.REJECTED
    assert receipt.reason
    with pytest.raises(Conflict, match=receipt.reason):
        _ = receipt.checked()
    _ = workspace.submit(limit(1))
    assert workspace.read(lambda snapshot: snapshot.rows("dead_letter")) == []


def test_a_request_id_that_was_used_gives_the_first_answer_and_applies_nothing(
    address: Address,
) -> None:
    workspace = open_workspace(address)
    first = workspace.submit(limit(3), request_id="one")
    _ = workspace.submit(limit(4))
    again = workspace.submit(limit(3), request_id="one")
    assert (again.status, again.seq, again.repeated) == (first.status, first.seq, True)
    assert limits(workspace) == [4]
    other = workspace.submit(limit(5), request_id="one")
    assert other.status is ReceiptStatus.CONFLICT
    assert "idempotency_conflict" in other.reason


def test_the_ledger_knows_who_asked(address: Address) -> None:
    workspace = open_workspace(address, actor="user:ada@laptop")
    _ = workspace.submit(limit(3))
    _ = workspace.submit(limit(4), actor="user:bob@desk")
    rows = workspace.read(lambda snapshot: snapshot.rows("ledger_index"))
    assert {getattr(row, "actor", "") for row in rows} == {"user:ada@laptop", "user:bob@desk"}


# --- somebody leads on this machine ---------------------------------------------------------------


def test_a_receipt_tells_the_position_of_the_request_and_a_repetition_the_same(
    address: Address,
) -> None:
    workspace = open_workspace(address, must_exist=False)
    first = workspace.submit(PoolLimitSet(pool="a", limit=1), request_id="mine")
    again = workspace.submit(PoolLimitSet(pool="a", limit=1), request_id="mine")
    assert first.accepted_event_id == f"{first.seq}.0"
    assert (again.accepted_event_id, again.repeated) == (first.accepted_event_id, True)
    refused = workspace.submit(RunCancelRequested(run_id="run_x"))
    assert (refused.applied, refused.accepted_event_id) == (False, "")


def test_what_follows_from_something_keeps_its_correlation(address: Address) -> None:
    workspace = open_workspace(address, must_exist=False, actor="user:ada@laptop")

    def request(name: str) -> RunRequested:
        return RunRequested(run_id=name, run_key=name, request_fingerprint="f")

    def run(name: str, seq: int) -> RunRow:
        rows = workspace.read(lambda found: Lookup(found).all(RunRow, run_id=name), min_seq=seq)
        return rows[0]

    first = run("run_a", workspace.submit(request("run_a")).seq)
    second = run("run_b", workspace.submit(request("run_b"), cause=first).seq)
    assert (second.cause, second.correlation) == (first.request_position, first.correlation)
    assert second.requested_by == "user:ada@laptop"


def test_a_leader_of_this_machine_is_asked_and_never_fenced(address: Address) -> None:
    with leading(address, open_world(address.store)) as led:
        epoch = led.service.engine.state.epoch
        receipt = open_workspace(address).submit(limit(3))
        assert receipt.applied
        assert led.service.engine.state.seq == receipt.seq
        refused = open_workspace(address).submit(RunCancelRequested(run_id="run_unknown"))
        assert refused.status is ReceiptStatus.REJECTED
        assert (led.service.engine.state.epoch, led.service.over) == (epoch, False)


def test_a_leader_is_found_whatever_the_spelling_of_the_folder(
    address: Address, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(address.store)
    with leading(address, open_world(address.store)) as led:
        for spelling in (f"file://{address.store}", str(tmp_path / "link")):
            receipt = open_workspace(Address.of(spelling)).submit(limit(3))
            assert receipt.applied
        assert not led.service.over


def test_another_registry_still_sees_the_leader_of_a_folder_and_goes_through_its_inbox(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading(address, open_world(address.store)) as led:
        be_on(monkeypatch, tmp_path / "b")
        receipt = open_workspace(address).submit(limit(3))
        assert (receipt.status, led.service.over) == (ReceiptStatus.APPLIED, False)
        refused = open_workspace(address).submit(RunCancelRequested(run_id="run_unknown"))
        assert refused.status in {ReceiptStatus.REJECTED, ReceiptStatus.PARKED}


def test_a_second_process_does_not_get_to_lead_until_the_first_has_ended(address: Address) -> None:
    with leading(address, open_world(address.store)):
        assert try_to_lead(address, open_world(address.store)) is None
    led = try_to_lead(address, open_world(address.store))
    assert led is not None
    led.stop()


def test_a_request_whose_leader_ends_before_it_answers_reaches_the_next_one_once(
    address: Address,
) -> None:
    world = open_world(address.store)
    led = try_to_lead(address, world, settings=FAST)
    assert led is not None
    # It is there and never started: whoever asks it waits until it has ended.
    stopper = threading.Timer(0.3, led.stop)
    stopper.start()
    receipt = open_workspace(address).submit(limit(3), request_id="one")
    stopper.join()
    assert (receipt.status, receipt.repeated) == (ReceiptStatus.APPLIED, False)


def test_a_lock_that_is_taken_but_says_nothing_yet_is_waited_for(address: Address) -> None:
    lock = LeaderLock(address)
    assert lock.acquire()
    assert (found := leader_here(address)) is not None
    assert found.pid == 0
    threading.Timer(0.2, lock.release).start()
    assert open_workspace(address).submit(limit(3)).applied


def test_a_leader_whose_socket_was_deleted_creates_it_again(address: Address) -> None:
    with leading(address, open_world(address.store)):
        leader = leader_here(address)
        assert leader is not None
        shutil.rmtree(Path(leader.socket).parent)
        assert open_workspace(address).submit(limit(3)).applied
        eventually(lambda: Path(leader.socket).exists())
        check_answers(leader)
    assert not Path(leader.socket).exists()


@pytest.mark.parametrize("damage", ["socket", "advert"])
def test_a_leader_that_cannot_be_reached_on_its_machine_is_asked_through_the_inbox(
    damage: str, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_EVERY", 600.0)
    monkeypatch.setattr(answering, "REACHED_WITHIN", 0.1)
    with leading(address, open_world(address.store)) as led:
        leader = leader_here(address)
        assert leader is not None
        if damage == "socket":
            Path(leader.socket).unlink()
        else:
            _ = (Path(address.store) / ".locks" / "default.default.leader").write_text("garbage")
        receipt = open_workspace(address).submit(limit(3))
        assert (receipt.status, led.service.over) == (ReceiptStatus.APPLIED, False)


# --- somebody leads on another machine ------------------------------------------------------------


def test_a_leader_elsewhere_takes_a_request_from_the_inbox_and_its_answer_comes_back(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading(BUCKET, bucket) as led:
        epoch = led.service.engine.state.epoch
        be_on(monkeypatch, tmp_path / "b")
        receipt = workspace_on(BUCKET, bucket).submit(limit(3))
        assert receipt.applied
        refused = workspace_on(BUCKET, bucket).submit(limit(-1))
        assert refused.status is ReceiptStatus.REJECTED
        assert (led.service.engine.state.epoch, led.service.over) == (epoch, False)


def test_a_leader_elsewhere_says_how_to_reach_it_and_lets_go_when_it_ends(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading(BUCKET, bucket):
        lease = read_lease(bucket.store, BUCKET.paths)
        assert lease is not None
        assert lease.leader is not None
        assert (lease.leader.stays, lease.leader.pid > 0) == (True, True)
        be_on(monkeypatch, tmp_path / "b")
        assert try_to_lead(BUCKET, bucket) is None
        assert who_leads(BUCKET, bucket) == lease.leader
    assert who_leads(BUCKET, bucket) is None


def test_a_request_that_a_leader_elsewhere_does_not_take_is_queued_and_says_so(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_started = try_to_lead(BUCKET, bucket)
    assert never_started is not None
    be_on(monkeypatch, tmp_path / "b")
    monkeypatch.setattr(channels, "ANSWER_WITHIN", 0.3)
    receipt = workspace_on(BUCKET, bucket).submit(limit(3))
    assert (receipt.status, receipt.seq) == (ReceiptStatus.QUEUED, 0)
    assert receipt.checked() == receipt
    never_started.stop()
    monkeypatch.setattr(channels, "ANSWER_WITHIN", 30.0)
    _ = workspace_on(BUCKET, bucket).submit(PoolLimitSet(pool="other", limit=9))
    assert 3 in limits(workspace_on(BUCKET, bucket))


def test_the_lease_of_a_leader_that_died_on_this_machine_is_not_waited_for(
    bucket: World,
) -> None:
    killed = try_to_lead(BUCKET, bucket)
    assert killed is not None
    killed._lock.release()  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage] # noqa: SLF001 - what the kernel does when a process is killed
    assert who_leads(BUCKET, bucket) is None
    assert workspace_on(BUCKET, bucket).submit(limit(3)).applied


def test_the_lease_of_a_leader_that_died_elsewhere_is_waited_for_and_then_taken_over(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Settings(lease_for=timedelta(milliseconds=600))
    killed = try_to_lead(BUCKET, bucket, settings=short)
    assert killed is not None
    be_on(monkeypatch, tmp_path / "b")
    assert try_to_lead(BUCKET, bucket) is None
    receipt = workspace_on(BUCKET, bucket).submit(limit(3), request_id="one")
    assert receipt.applied
    assert limits(workspace_on(BUCKET, bucket), receipt.seq) == [3]
    killed.stop()


def test_the_lease_tells_who_leads_although_a_suspended_process_still_has_the_lock(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Settings(lease_for=timedelta(milliseconds=200))
    suspended = try_to_lead(BUCKET, bucket, settings=short)
    assert suspended is not None
    assert (here := who_leads(BUCKET, bucket)) is not None
    be_on(monkeypatch, tmp_path / "b")
    successor = eventually(lambda: try_to_lead(BUCKET, bucket))
    assert successor is not None
    lease = read_lease(bucket.store, BUCKET.paths)
    assert lease is not None
    be_on(monkeypatch, tmp_path / "a")
    assert who_leads(BUCKET, bucket) == lease.leader != here
    successor.stop()
    assert who_leads(BUCKET, bucket) == here, "nobody of this machine can lead before it has ended"
    suspended.stop()


# --- what names, files and objects may do to a healthy leader -------------------------------------

SPELLED_OTHERWISE = Address("s3://bucket?endpoint=https://another.name")


def term(led: Led) -> tuple[int, bool]:
    return led.service.engine.state.epoch, led.service.over


def test_a_leader_is_asked_and_never_fenced_under_another_name_of_its_bucket(
    bucket: World,
) -> None:
    with leading(BUCKET, bucket) as led:
        before = term(led)
        assert who_leads(SPELLED_OTHERWISE, bucket) == who_leads(BUCKET, bucket)
        assert try_to_lead(SPELLED_OTHERWISE, bucket) is None
        receipt = workspace_on(SPELLED_OTHERWISE, bucket).submit(limit(3))
        assert (receipt.applied, led.service.engine.state.seq) == (True, receipt.seq)
        assert term(led) == before
    assert who_leads(SPELLED_OTHERWISE, bucket) is None


def test_a_leader_that_died_is_replaced_at_once_under_another_name_of_its_bucket(
    bucket: World,
) -> None:
    killed = try_to_lead(BUCKET, bucket)
    assert killed is not None
    killed._lock.release()  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage] # noqa: SLF001 - what the kernel does when a process is killed
    assert who_leads(SPELLED_OTHERWISE, bucket) is None
    assert workspace_on(SPELLED_OTHERWISE, bucket).submit(limit(3)).applied


def test_a_suspended_leader_is_not_replaced_under_another_name_of_its_bucket(
    bucket: World,
) -> None:
    suspended = try_to_lead(BUCKET, bucket, settings=Settings(lease_for=timedelta(0)))
    assert suspended is not None
    here = who_leads(BUCKET, bucket)
    assert here is not None
    assert who_leads(SPELLED_OTHERWISE, bucket) == here
    assert try_to_lead(SPELLED_OTHERWISE, bucket) is None
    suspended.stop()


def test_a_lease_of_this_machine_that_names_no_lock_is_waited_for(bucket: World) -> None:
    older = LeaderAdvert(pid=1, machine=machine_id(), socket="/nowhere")
    expires = bucket.clock.now() + timedelta(seconds=30)
    lease = Lease(holder="older version", expires=expires, leader=older)
    bucket.store.create(BUCKET.paths.lease, msgspec.json.encode(lease))
    assert who_leads(BUCKET, bucket) == older
    assert try_to_lead(BUCKET, bucket) is None


def test_a_request_for_another_store_under_the_same_url_is_refused(
    bucket: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "ANSWER_WITHIN", 0.3)
    other = World(MemoryStore(SystemClock()), SystemClock(), SystemEntropy())
    with leading(BUCKET, bucket) as led:
        seq = led.service.engine.state.seq
        with pytest.raises(Unavailable, match="does not hold the lease in this store") as told:
            _ = workspace_on(BUCKET, other).submit(limit(3))
        assert told.value.may_have_applied is False
        assert led.service.engine.state.seq == seq
        assert workspace_on(BUCKET, bucket).submit(limit(4)).applied
        assert limits(workspace_on(BUCKET, bucket), seq + 1) == [4]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("damage", ["deleted", "damaged"])
def test_a_leader_writes_a_damaged_or_deleted_lease_again_and_answers(
    bucket: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, elsewhere: bool
) -> None:
    settings = replace(FAST, renew_every=timedelta(seconds=1))
    led = try_to_lead(BUCKET, bucket, settings=settings, leader=Leader(stays=True))
    assert led is not None
    with led:
        before = term(led)
        if damage == "deleted":
            bucket.store.delete(BUCKET.paths.lease)
            eventually(lambda: read_lease(bucket.store, BUCKET.paths))
        else:
            _ = bucket.store.put(BUCKET.paths.lease, b"garbage")
        if elsewhere:
            be_on(monkeypatch, tmp_path / "b")
        assert workspace_on(BUCKET, bucket).submit(limit(3)).applied
        eventually(lambda: (lease := read_lease(bucket.store, BUCKET.paths)) and lease.leader)
        assert term(led) == before
        assert try_to_lead(BUCKET, bucket) is None


def test_a_request_makes_the_leader_write_its_deleted_lease_again_at_once(bucket: World) -> None:
    with leading(BUCKET, bucket) as led:
        bucket.store.delete(BUCKET.paths.lease)
        started = bucket.clock.monotonic()
        assert workspace_on(BUCKET, bucket).submit(limit(3)).applied
        assert bucket.clock.monotonic() - started < Settings().renew_every.total_seconds() / 2
        assert not led.service.over


def lock_files(address: Address) -> list[Path]:
    folder = Path(address.store) / ".locks" if address.is_local else registry_folder()
    return [*folder.glob("*.leader")]


def test_a_deleted_lock_file_does_not_hide_the_leader_of_a_bucket(bucket: World) -> None:
    with leading(BUCKET, bucket) as led:
        before, leader = term(led), who_leads(BUCKET, bucket)
        (lock,) = lock_files(BUCKET)
        lock.unlink()
        assert who_leads(BUCKET, bucket) == leader
        assert try_to_lead(BUCKET, bucket) is None
        assert workspace_on(BUCKET, bucket).submit(limit(3)).applied
        eventually(lambda: leader_here(BUCKET) not in (None, LeaderAdvert(pid=0)))
        restored = leader_here(BUCKET)
        eventually(lambda: _named(bucket) == restored)
        assert restored != leader, "it is another file"
        assert term(led) == before
    assert who_leads(BUCKET, bucket) is None


def _named(world: World) -> LeaderAdvert | None:
    lease = read_lease(world.store, BUCKET.paths)
    return None if lease is None else lease.leader


def test_a_leader_of_a_bucket_that_dies_after_its_lock_was_restored_is_replaced_at_once(
    bucket: World,
) -> None:
    with leading(BUCKET, bucket) as led:
        (lock,) = lock_files(BUCKET)
        lock.unlink()
        eventually(lambda: (found := leader_here(BUCKET)) and _named(bucket) == found)
        led._lock.release()  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage] # noqa: SLF001 - what the kernel does when a process is killed
        assert who_leads(BUCKET, bucket) is None
        successor = try_to_lead(BUCKET, bucket)
        assert successor is not None
        successor.stop()


def test_a_leader_of_a_folder_restores_its_lock_file(address: Address) -> None:
    with leading(address, open_world(address.store)) as led:
        before, leader = term(led), leader_here(address)
        (lock,) = lock_files(address)
        lock.unlink()
        lock.parent.rmdir()
        eventually(lambda: leader_here(address) == leader)
        assert workspace_on(address, open_world(address.store)).submit(limit(3)).applied
        assert term(led) == before


def test_a_leader_of_a_folder_that_is_moved_keeps_its_lock_and_makes_no_new_folder(
    address: Address, tmp_path: Path
) -> None:
    with leading(address, open_world(address.store)) as led:
        leader = leader_here(address)
        moved = Path(address.store).rename(tmp_path / "moved")
        (lock,) = lock_files(Address.of(str(moved)))
        lock.unlink()
        eventually(lambda: leader_here(Address.of(str(moved))) == leader)
        assert not Path(address.store).exists()
        assert not led.service.over


def test_whoever_locks_a_deleted_lock_file_of_a_folder_first_replaces_the_leader(
    address: Address,
) -> None:
    with leading(address, open_world(address.store)) as led:
        (lock,) = lock_files(address)
        lock.unlink()
        with leading(address, open_world(address.store)) as second:
            eventually(lambda: led.service.over)
            assert isinstance(led.service.failure, Fenced)
            receipt = workspace_on(address, open_world(address.store)).submit(limit(3))
            assert second.service.engine.state.seq == receipt.seq


def test_reading_needs_no_leader_and_writes_nothing(address: Address) -> None:
    workspace = open_workspace(address)
    _ = workspace.submit(limit(3))
    before = sorted(str(path) for path in Path(address.store).rglob("*"))
    assert limits(open_workspace(address)) == [3]
    assert sorted(str(path) for path in Path(address.store).rglob("*")) == before


def test_an_unanswered_request_is_told_as_unknown_and_never_as_refused(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "ANSWER_WITHIN", 0.3)
    never_started = try_to_lead(address, open_to_read(address.store))
    assert never_started is not None
    with pytest.raises(Unavailable) as told:
        _ = open_workspace(address).submit(limit(3))
    assert told.value.may_have_applied is False or "request id" in str(told.value)
    never_started.stop()


class LosingItsLeader(MemoryStore):
    """A bucket whose leader ends once a request is in the inbox, and which then refuses reads."""

    def __init__(self, *, refusals: int) -> None:
        super().__init__(SystemClock())
        self.refusals = refusals
        self.looks = 0
        self.sent = False

    def create(self, key: str, data: bytes) -> ObjectMeta:
        made = super().create(key, data)
        if "/inbox/" in key:
            self.sent = True
            self.delete(BUCKET.paths.lease)
        return made

    def get(self, key: str) -> Blob:
        if self.sent and key == BUCKET.paths.lease:
            self.looks += 1
            if 1 < self.looks <= 1 + self.refusals:
                raise Unavailable("the store refused", may_have_applied=False)
        return super().get(key)


def led_elsewhere(store: MemoryStore) -> World:
    leader = LeaderAdvert(pid=7, machine="another")
    expires = SystemClock().now() + timedelta(seconds=30)
    lease = Lease(holder="x", expires=expires, leader=leader)
    store.put(BUCKET.paths.lease, msgspec.json.encode(lease))
    return World(store, SystemClock(), SystemEntropy())


def test_a_request_that_lies_in_the_inbox_is_not_told_as_not_applied() -> None:
    world = led_elsewhere(LosingItsLeader(refusals=100))
    with pytest.raises(Unavailable, match="the store refused") as told:
        _ = workspace_on(BUCKET, world).submit(limit(1))
    assert told.value.may_have_applied


def test_a_store_that_refuses_a_look_does_not_end_the_wait_for_the_inbox() -> None:
    store = LosingItsLeader(refusals=0)
    world = led_elsewhere(store)
    refused = iter((True, True))

    def is_led() -> bool:
        if next(refused, False):
            raise Unavailable("the store refused", may_have_applied=False)
        return False

    batch = Batch(id="b", events=(limit(1),), actor="user:ada")
    assert InboxChannel(BUCKET, world, is_led).send(batch) is None
    assert next(refused, None) is None


def test_a_request_through_the_inbox_is_not_given_the_answer_to_another(bucket: World) -> None:
    with leading(BUCKET, bucket):
        through = channels.InboxChannel(BUCKET, bucket, lambda: True)
        first = through.send(Batch(id="a", events=(limit(3),), request_id="mine"))
        again = through.send(Batch(id="b", events=(limit(3),), request_id="mine"))
        other = through.send(Batch(id="c", events=(limit(4),), request_id="mine"))
    assert first is not None
    assert first.applied
    assert again is not None
    assert (again.status, again.seq) == (first.status, first.seq)
    assert other is not None
    assert other.status is ReceiptStatus.CONFLICT
    assert other.reason.startswith("idempotency_conflict")


class OutOfReach(MemoryStore):
    """A bucket that cannot be reached while `down`."""

    down = False

    def get(self, key: str) -> Blob:
        if self.down:
            raise Unavailable("the store refused", may_have_applied=False)
        return super().get(key)


def test_a_leader_that_stops_during_an_outage_can_lead_again() -> None:
    store = OutOfReach(SystemClock())
    world = World(store, SystemClock(), SystemEntropy())
    with leading(BUCKET, world):
        store.down = True
    assert leader_here(BUCKET) is None
    store.down = False
    with leading(BUCKET, world) as again:
        assert again.service.leads


def test_a_leader_whose_service_cannot_stop_releases_its_lock(
    bucket: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = try_to_lead(BUCKET, bucket, settings=FAST)
    assert led is not None

    def fail() -> None:
        raise OSError("no space left")

    monkeypatch.setattr(led.service, "stop", fail)
    with pytest.raises(OSError, match="no space left"):
        led.stop()
    assert leader_here(BUCKET) is None
    assert LeaderLock(BUCKET).acquire()
