"""SQL over the tables of a workspace and the data of its assets; nothing can be changed by it."""

from datetime import datetime
from typing import Any

import msgspec

from servo.execution.outputs.data import AssetData
from servo.execution.outputs.store import OutputStore
from servo.operations.interface.moments import AsOf, instant_of
from servo.operations.interface.roles import operation
from servo.projection.read.reader import Snapshot
from servo.projection.read.sql import query
from servo.workspace.workspace import Workspace


class SqlResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a query returned: rows have their values in the order of `columns`.

    `applied_seq` is the last ledger entry that the answer knows of, and `as_of` its time.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    applied_seq: int
    as_of: datetime


@operation
def run_sql(workspace: Workspace, statement: str, *, as_of: AsOf | None = None) -> SqlResult:
    """Run one SELECT statement; `Invalid` for any other statement, or if it fails."""

    def use(snapshot: Snapshot) -> SqlResult:
        outputs = OutputStore(workspace.store, workspace.paths)
        data = AssetData(snapshot, outputs, instant_of(snapshot, as_of, workspace.now()))
        found = query(snapshot, statement, data)
        return SqlResult(
            columns=list(found.columns),
            rows=found.rows,
            applied_seq=snapshot.applied_seq,
            as_of=snapshot.as_of,
        )

    return workspace.read(use, as_of=as_of)
