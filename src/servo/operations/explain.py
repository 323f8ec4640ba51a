"""Explanations of the state of an asset, a run or a task, and of why an asset is not newer."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from servo.core.explain import assets
from servo.core.explain import runs as run_reasons
from servo.core.explain.finding import Finding
from servo.core.explain.records import Records
from servo.core.explain.tasks import explain_attempt
from servo.errors import NotFound
from servo.operations.interface.roles import operation
from servo.operations.interface.subjects import asset_in, task_in
from servo.operations.runs import find_run
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import AsOf
from servo.workspace.workspace import Workspace

_Explain = Callable[[Snapshot, Records], list[Finding]]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The findings, and the ledger entry they are based on."""

    applied_seq: int
    as_of: datetime
    findings: list[Finding]


@operation
def explain_asset(
    workspace: Workspace,
    asset: str,
    *,
    partition: str | None = None,
    as_of: AsOf | None = None,
    whole: bool = False,
) -> Explanation:
    """What materialized an asset or a partition last, what was tried since, what happens next.

    With `whole`, every part of a condition is found, not only what decided it.
    """

    def ask(snapshot: Snapshot, records: Records) -> list[Finding]:
        return assets.why(records, asset_in(snapshot, asset, partition, records.now))

    return _answer(workspace, ask, as_of, whole=whole)


@operation
def explain_missing(
    workspace: Workspace,
    asset: str,
    *,
    partition: str | None = None,
    as_of: AsOf | None = None,
    whole: bool = False,
) -> Explanation:
    """Why nothing newer was materialized: what was tried, and what could have started it."""

    def ask(snapshot: Snapshot, records: Records) -> list[Finding]:
        return assets.why_not(records, asset_in(snapshot, asset, partition, records.now))

    return _answer(workspace, ask, as_of, whole=whole)


@operation
def explain_run(
    workspace: Workspace, run_id: str, *, as_of: AsOf | None = None, whole: bool = False
) -> Explanation:
    """What requested a run, its state, and what it waits for. The id can be abbreviated."""

    def ask(snapshot: Snapshot, records: Records) -> list[Finding]:
        return _about_run(snapshot, records, run_id)

    return _answer(workspace, ask, as_of, whole=whole)


@operation
def explain_task(
    workspace: Workspace,
    run_id: str,
    task: str,
    *,
    as_of: AsOf | None = None,
    whole: bool = False,
) -> Explanation:
    """The same of one task of a run: by its key, its asset or `ASSET:PARTITION`."""

    def ask(snapshot: Snapshot, records: Records) -> list[Finding]:
        run = find_run(Lookup(snapshot), run_id)
        return [explain_attempt(records, task_in(records, run, task))]

    return _answer(workspace, ask, as_of, whole=whole)


def _about_run(snapshot: Snapshot, records: Records, run_id: str) -> list[Finding]:
    try:
        run = find_run(Lookup(snapshot), run_id)
    except NotFound:
        found = run_reasons.explain_unknown_run(records, run_id)
        if found is None:
            raise
        return [found]
    return [run_reasons.explain_run(records, run)]


def _answer(
    workspace: Workspace, question: _Explain, as_of: AsOf | None, *, whole: bool
) -> Explanation:
    # Whether somebody leads says what happens next, which is no question about the past.
    led = None if as_of is not None else workspace.leader() is not None

    def ask(snapshot: Snapshot) -> Explanation:
        now = _now(workspace, snapshot, as_of)
        records = Records(Lookup(snapshot), now, led=led, whole=whole)
        return Explanation(
            applied_seq=snapshot.applied_seq,
            as_of=snapshot.as_of,
            findings=question(snapshot, records),
        )

    return workspace.read(ask, as_of=as_of)


def _now(workspace: Workspace, snapshot: Snapshot, as_of: AsOf | None) -> datetime:
    if as_of is None:
        return workspace.now()
    return snapshot.as_of if isinstance(as_of, int) else as_of
