"""`load_asset()`: the value of an asset, now or as it was."""

from typing import Any

from servo.core.state.rows.assets import MaterializationRow
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.projection.reader import Reader
from servo.projection.replay import AsOf
from servo.runtime.system import SystemClock
from servo.sdk.specs import to_key
from servo.storage.from_url import store_from_url
from servo.worker.outputs import OutputStore

DEFAULT_STORE = ".servo"


def load_asset(
    key: Any,
    *,
    as_of: AsOf | None = None,
    store: str = DEFAULT_STORE,
    tenant: str = "default",
    workspace: str = "default",
) -> Any:
    """The value of an asset: the latest, or the latest at an instant or after a ledger entry.

    What a blocking check held back is never loaded; what an IO manager stored is the manager's.
    """
    name = to_key(key).canonical()
    paths = Paths(tenant, workspace)
    opened = store_from_url(store, clock=SystemClock())
    made = _latest(Reader(opened, paths), name, as_of)
    if made is None:
        when = "" if as_of is None else f" as of {as_of}"
        raise NotFound(f"{name} has not been made{when}", remedy="materialize it first")
    return OutputStore(opened, paths).load(made.output_uri) if made.output_uri else None


def _latest(reader: Reader, name: str, as_of: AsOf | None) -> MaterializationRow | None:
    rows = reader.snapshot(as_of=as_of).rows("materializations")
    found = [row for row in rows if isinstance(row, MaterializationRow)]
    mine = [row for row in found if row.asset_key == name and row.promoted]
    return max(mine, key=lambda row: row.created_seq, default=None)
