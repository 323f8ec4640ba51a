"""Upkeep of a workspace: who may rebuild, and that nothing is published without agreement."""

from collections.abc import Callable
from pathlib import Path

import pytest

from servo.config import Settings
from servo.core.events.quotas import PoolLimitSet
from servo.errors import Fenced, NotFound
from servo.leader.leases.lease import read_lease
from servo.operations.admin import (
    collect_garbage,
    compare_projection,
    inspect_workspace,
    rebuild_projection,
    verify_workspace,
)
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.shop import copy_of, shop
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import LedByAnother, try_to_lead
from servo.workspace.system import SystemClock, SystemEntropy
from servo.workspace.workspace import Workspace

BUCKET = Address("s3://bucket")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A store that other machines can reach."""
    be_on(monkeypatch, tmp_path / "here")
    return World(MemoryStore(SystemClock()), SystemClock(), SystemEntropy())


def be_on(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Be a process of another machine: one with a registry of its own."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))


def workspace_on(world: World) -> Workspace:
    return Workspace(BUCKET, world, AnyChannel(BUCKET, world))


@pytest.fixture
def workspace(world: World) -> Workspace:
    made = workspace_on(world)
    assert made.submit(PoolLimitSet(pool="db", limit=1)).applied
    return made


def test_a_rebuild_publishes_a_new_version_and_lets_others_lead_afterwards(
    workspace: Workspace, world: World
) -> None:
    before = inspect_workspace(workspace).newest
    made = rebuild_projection(workspace)
    assert before is not None
    assert made.published
    assert (made.v or 0) > before.v
    lease = read_lease(world.store, BUCKET.paths)
    assert lease is not None
    assert lease.expires <= world.clock.now()
    assert workspace.submit(PoolLimitSet(pool="db", limit=2)).applied
    assert verify_workspace(workspace).sound


def test_a_leader_of_another_machine_keeps_a_rebuild_away(
    workspace: Workspace, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_on(monkeypatch, tmp_path / "elsewhere")
    led = try_to_lead(BUCKET, world, leader=Leader(stays=True, command="dev"))
    assert led is not None
    with led:
        be_on(monkeypatch, tmp_path / "here")
        with pytest.raises(LedByAnother, match=r"`servo dev` \(process \d+ on .+\) leads this"):
            _ = rebuild_projection(workspace)
        assert led.service.leads
        assert compare_projection(workspace).differences == ()


def test_nothing_is_published_without_agreement(workspace: Workspace) -> None:
    before = inspect_workspace(workspace)
    made = rebuild_projection(workspace, agree=lambda found: found.differs)
    assert (made.published, made.comparison.differs) == (False, False)
    assert inspect_workspace(workspace) == before


def test_progress_is_told_with_what_is_done(workspace: Workspace) -> None:
    told: list[tuple[str, int, int]] = []

    def step(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    _ = rebuild_projection(workspace, progress=step)
    assert {what for what, _, _ in told} == {"replaying the ledger"}
    assert all(done <= total for _, done, total in told)


@pytest.mark.parametrize(
    "look", [inspect_workspace, verify_workspace, compare_projection, collect_garbage]
)
def test_a_store_without_the_workspace_says_so(
    look: Callable[[Workspace], object], world: World
) -> None:
    with pytest.raises(NotFound, match="s3://bucket has no workspace default/default"):
        _ = look(workspace_on(world))


def test_who_leads_without_a_service_keeps_the_lease_or_stops(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    there = World(MemoryStore(clock), clock, world.entropy)
    led = workspace_on(there).try_to_lead(command="admin rebuild")
    assert led is not None
    for _ in range(3):
        clock.advance(Settings().lease_for * 0.9)
        led.keep_lease()
    be_on(monkeypatch, tmp_path / "elsewhere")
    assert workspace_on(there).try_to_lead(command="dev") is None
    clock.advance(Settings().lease_for * 2)
    other = workspace_on(there).try_to_lead(command="dev")
    assert other is not None
    be_on(monkeypatch, tmp_path / "here")
    with pytest.raises(Fenced):
        led.keep_lease()
    led.stop()
    other.stop()


def test_outputs_are_verified_unless_a_quick_verification_leaves_them_out() -> None:
    workspace = copy_of(shop())
    before = verify_workspace(workspace)
    assert (before.sound, before.outputs) == (True, 2)
    markers = [meta.key for meta in workspace.store.list_after(workspace.paths.assets_prefix)]
    _ = workspace.store.put(markers[0], workspace.store.get(markers[-1]).data)
    (problem,) = verify_workspace(workspace).problems
    assert (problem.part, "is the marker of another output" in problem.what) == ("outputs", True)
    workspace.store.delete(markers[0])
    (problem,) = verify_workspace(workspace).problems
    assert "an object of it is missing" in problem.what
    quick = verify_workspace(workspace, quick=True)
    assert (quick.sound, quick.outputs, quick.logs) == (True, None, None)
