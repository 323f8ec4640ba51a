"""Run keys that people choose: a request that is repeated is recognised, and creates nothing new.

The fold decides which request a run key belongs to. Here is only seen whether one is known, so that
whoever repeats it is told; between the two another process may be first, and then the fold answers.
"""

from typing import Protocol

from msgspec.structs import replace

from servo.core.ids import RunKey, TenantId, WorkspaceId, check_text, run_id
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Reader
from servo.workspace.run_requests import Wanted, request_fingerprint, run_key_taken

PREFIX = "manual:"
"""What a person's run key begins with: none of a schedule or a sensor is ever the same."""


class Keeper(Protocol):
    """What is needed of whoever carries a request out."""

    paths: Paths

    @property
    def store(self) -> ObjectStore: ...
    @property
    def salt(self) -> bytes: ...
    def row(self, run: str) -> RunRow | None: ...


def under_run_key(wanted: Wanted, run_key: str) -> Wanted:
    """A request under a key of its own; what it asks for tells it from others, not its plan."""
    return replace(
        wanted,
        run_key=PREFIX + check_text(run_key, "run key"),
        request_id=run_key,
        fingerprint=request_fingerprint(wanted.plan, wanted.tags),
    )


def requested_before(host: Keeper, wanted: Wanted) -> RunRow | None:
    """The run of the same request; `Conflict` if its key belongs to another."""
    tenant, workspace = TenantId(host.paths.tenant), WorkspaceId(host.paths.workspace)
    name = run_id(host.salt, tenant, workspace, RunKey(wanted.run_key))
    known = host.row(name) or _published(host, name)
    if known is not None and known.request_fingerprint != wanted.fingerprint:
        told = f"{name} was asked for {known.request_text or 'something else'}"
        raise run_key_taken(wanted.request_id, told)
    return known


def tasks_of_run(host: Keeper, name: str) -> list[TaskRow]:
    """The tasks of a run that has ended, as they were published."""
    reader = Reader(host.store, host.paths)
    return reader.read(lambda snapshot: Lookup(snapshot).all(TaskRow, run_id=name))


def _published(host: Keeper, name: str) -> RunRow | None:
    reader = Reader(host.store, host.paths)
    try:
        found = reader.read(lambda snapshot: Lookup(snapshot).all(RunRow, run_id=name))
    except NotFound:
        return None
    return found[0] if found else None
