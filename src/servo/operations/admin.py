"""Maintenance of stored data: inspect and verify it, rebuild the projection, delete garbage."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from servo.config import Settings
from servo.core.manifest import Manifest
from servo.errors import Conflict, NotFound
from servo.execution.outputs.store import OutputStore
from servo.execution.outputs.verification import check_outputs, kept_outputs
from servo.leader.leases.lease import LeaderAdvert
from servo.leader.republish import republish
from servo.operations.interface.roles import operation
from servo.ports.object_store import ObjectMeta
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.store_time import StoreTime
from servo.projection.upkeep.gc import GcReport, collect
from servo.projection.upkeep.inspection import Inspection, NewestVersion, inspect
from servo.projection.upkeep.orphans import delete_plans, orphaned_plans
from servo.projection.upkeep.outputs import collect_outputs, expiry_events
from servo.projection.upkeep.row_diff import Comparison, RowDiff, compare
from servo.projection.upkeep.verify import (
    Problem,
    ProblemPart,
    VerifyReport,
    problem_of,
    verify,
)
from servo.workspace.leading import Led, LedByAnother
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

__all__ = [
    "Collected",
    "Comparison",
    "GcReport",
    "Inspection",
    "NewestVersion",
    "Problem",
    "Rebuilt",
    "RowDiff",
    "VerifyReport",
    "collect_garbage",
    "compare_projection",
    "inspect_workspace",
    "rebuild_projection",
    "verify_workspace",
]

AdminProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

REBUILD = "admin rebuild"
FOLDING = "replaying the ledger"


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """How the published projection differed, and the version that replaced it.

    Without a version, nothing was published, because `agree` declined.
    """

    comparison: Comparison
    v: int | None = None
    applied_seq: int | None = None

    @property
    def published(self) -> bool:
        return self.v is not None


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be, and the request that records expired outputs."""

    report: GcReport
    plans: list[str] = []
    plan_bytes: int = 0
    dry_run: bool = False
    receipts: list[Receipt] = []


def nobody_watches(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""
    del what, done, total


def always_agree(comparison: Comparison) -> bool:
    """Agree, whatever differs."""
    del comparison
    return True


# --- looking --------------------------------------------------------------------------------------


@operation
def inspect_workspace(workspace: Workspace) -> Inspection:
    """What is stored, from listings and the newest manifest alone; works on damaged data too."""
    found = inspect(workspace.store, workspace.paths)
    if found.newest is None and not found.last_entry:
        raise _empty(workspace)
    return found


@operation
def verify_workspace(
    workspace: Workspace, *, quick: bool = False, progress: AdminProgress = nobody_watches
) -> VerifyReport:
    """Check every byte that is stored, and the projection against the ledger. Changes nothing.

    A quick verification leaves out outputs and logs.
    """
    report = verify(workspace.store, workspace.paths, quick=quick, progress=progress)
    if not report.manifests and not report.entries:
        raise _empty(workspace)
    return report if quick or not report.compared else _with_outputs(workspace, report, progress)


def _with_outputs(
    workspace: Workspace, report: VerifyReport, progress: AdminProgress
) -> VerifyReport:
    """Check the outputs too; which of them must be there is known once the tables are right."""
    part = ProblemPart.OUTPUTS
    outputs = OutputStore(workspace.store, workspace.paths)
    kept = workspace.read(lambda snapshot: kept_outputs(snapshot, workspace.paths))
    found = check_outputs(outputs, kept, lambda done, total: progress(part, done, total))
    problems = [problem_of(part, one) for one in found]
    return replace(report, outputs=len(kept), problems=(*report.problems, *problems))


@operation
def compare_projection(
    workspace: Workspace, *, progress: AdminProgress = nobody_watches
) -> Comparison:
    """Which rows differ between the published projection and the ledger. Changes nothing."""
    found = compare(
        workspace.store,
        workspace.paths,
        progress=lambda done, total: progress(FOLDING, done, total),
    )
    if not found.v and not found.unreadable:
        raise _empty(workspace)
    return found


# --- rebuilding -----------------------------------------------------------------------------------


@operation
def rebuild_projection(
    workspace: Workspace,
    *,
    agree: Callable[[Comparison], bool] = always_agree,
    progress: AdminProgress = nobody_watches,
) -> Rebuilt:
    """Rebuild the projection from the whole ledger and publish it; `Conflict` while a leader runs.

    `agree` sees what differs before anything is published. Rows of runs that an older version of
    the fold has finished are never changed.
    """
    leader = workspace.leader()
    if leader is not None:
        raise LedByAnother(leader)
    comparison = compare_projection(workspace, progress=progress)
    if comparison.rewrites_history:
        raise Conflict(
            "this version of Servo would change rows of runs that have finished",
            remedy="start a leader with `servo dev` instead: it continues from what is published",
        )
    if not agree(comparison):
        return Rebuilt(comparison=comparison)
    made = _republish(workspace, comparison.applied_seq, progress)
    return Rebuilt(comparison=comparison, v=made.v, applied_seq=made.applied_seq)


def _republish(workspace: Workspace, expected: int, progress: AdminProgress) -> Manifest:
    with _leading(workspace, REBUILD) as led:

        def step(seq: int) -> None:
            led.keep_lease()  # folding may take longer than a lease lasts
            progress(FOLDING, seq, max(seq, expected))

        return republish(led.world, workspace.paths, progress=step)


@contextmanager
def _leading(workspace: Workspace, command: str) -> Generator[Led]:
    """Hold the leadership of a workspace without starting a leader; `LedByAnother` if taken."""
    led = workspace.try_to_lead(command=command)
    if led is None:
        raise LedByAnother(workspace.leader() or LeaderAdvert(pid=0))
    try:
        yield led
    finally:
        led.stop()


# --- deleting -------------------------------------------------------------------------------------


@operation
def collect_garbage(
    workspace: Workspace, *, dry_run: bool = False, plans: bool = False
) -> Collected:
    """Delete what no kept version needs, archive old ledger entries, expire old outputs.

    Safe while a leader runs, which does the same regularly: only files older than `gc_min_age` are
    deleted, and an output only after the ledger records that it expired.
    """
    settings, now = Settings(), workspace.now()
    store, paths, current = workspace.store, workspace.paths, _newest(workspace)
    report = collect(
        store, paths, current=current, in_flight=(), now=now, settings=settings, dry_run=dry_run
    )
    report += collect_outputs(
        store, paths, current=current, now=now, settings=settings, dry_run=dry_run
    )
    orphans = _collect_plans(workspace, settings, dry_run=dry_run) if plans else []
    return Collected(
        report=report,
        plans=[meta.key for meta in orphans],
        plan_bytes=sum(meta.size for meta in orphans),
        dry_run=dry_run,
        receipts=[] if dry_run else _expire(workspace, report),
    )


def _expire(workspace: Workspace, report: GcReport) -> list[Receipt]:
    """Record expired outputs in the ledger, each only once."""
    receipts: list[Receipt] = []
    for event in expiry_events(report.expired):
        digest = sha256("\n".join(event.materialization_ids).encode()).hexdigest()
        receipts.append(workspace.submit(event, request_id=f"expired-{digest[:32]}").checked())
    return receipts


def _collect_plans(workspace: Workspace, settings: Settings, *, dry_run: bool) -> list[ObjectMeta]:
    store, paths = workspace.store, workspace.paths
    time = StoreTime(store, paths, patience=settings.gc_min_age / 4)
    older_than = time.present(workspace.now()) - settings.gc_min_age
    through = _newest(workspace).applied_seq
    found = orphaned_plans(store, paths, older_than=older_than, through=through)
    if not dry_run:
        _ = delete_plans(store, found, older_than=older_than)
    return found


def _newest(workspace: Workspace) -> Manifest:
    newest = ManifestStore(workspace.store, workspace.paths).current()
    if newest is None:
        raise _empty(workspace)
    return newest


def _empty(workspace: Workspace) -> NotFound:
    address = workspace.address
    return NotFound(
        f"{address.store} has no workspace {address.tenant}/{address.workspace}",
        remedy="check the store, the tenant and the workspace",
    )
