"""`load_asset()`: the value of an asset, now or as it was."""

from typing import Any

from servo.core.state.rows.assets import AssetRow, MaterializationRow
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

    An asset that was wiped has none. What a blocking check held back is never loaded; what an IO
    manager stored is the manager's; and what the asset's retention no longer keeps is `NotFound`,
    with when it expired.
    """
    name = to_key(key).canonical()
    paths = Paths(tenant, workspace)
    opened = store_from_url(store, clock=SystemClock())
    reader = Reader(opened, paths)
    made = _latest(reader, name, as_of)
    if made is None:
        when = "" if as_of is None else f" as of {as_of}"
        raise NotFound(f"{name} has not been made{when}", remedy="materialize it first")
    _check_kept(made if as_of is None else _as_it_is(reader, made))
    return OutputStore(opened, paths).load(made.output_uri) if made.output_uri else None


def _as_it_is(reader: Reader, made: MaterializationRow) -> MaterializationRow:
    """What is known of an output today: the past does not know that its data expired."""
    rows = reader.snapshot().rows("materializations")
    found = [row for row in rows if isinstance(row, MaterializationRow)]
    return next((row for row in found if row.materialization_id == made.materialization_id), made)


def _check_kept(made: MaterializationRow) -> None:
    if made.expired_at is not None:
        raise NotFound(
            f"the data of {made.asset_key} made at {made.created_at} expired at {made.expired_at}",
            remedy="load a newer version; a longer retention of the asset keeps more of them",
        )


def _latest(reader: Reader, name: str, as_of: AsOf | None) -> MaterializationRow | None:
    snapshot = reader.snapshot(as_of=as_of)
    assets = [row for row in snapshot.rows("assets") if isinstance(row, AssetRow)]
    latest = {row.asset_key: row.last_materialization_id for row in assets}.get(name)
    if latest is None:
        return None
    rows = snapshot.rows("materializations")
    found = [row for row in rows if isinstance(row, MaterializationRow)]
    return next((row for row in found if row.materialization_id == latest), None)
