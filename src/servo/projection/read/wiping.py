"""The partitions of an asset after all of it was wiped, in what was published.

A wipe of a whole asset changes the row of the asset and none of its partitions: there may be a
million. Their rows stand in the files as they were, and count as wiped if their version is older
than the `wiped_seq` of the asset: `servo.core.state.derived` over columns instead of rows.
"""

from collections.abc import Sequence

from servo.projection.files.arrow import ArrowTable, pa, pc
from servo.projection.files.schema import VERSION

TABLE = "partition_status"
ASSET = "asset_key"
WIPED = "wiped_seq"

_NONE = (
    "last_materialization_id",
    "last_materialization_run_id",
    "last_materialization_at",
    "last_materialization_seq",
    "last_materialization_code_version",
    "stale_since",
    "stale_reason_code",
)
_EMPTY = ("last_output_uri", "last_content_hash", "last_data_version")
_SEQ = ("latest_floor", VERSION)

CHANGED = frozenset((*_NONE, *_EMPTY, *_SEQ))
"""The columns of a partition that a wipe changes."""


def without_wiped(partitions: ArrowTable, assets: ArrowTable) -> ArrowTable:
    """The partitions as they are after the wipes that the table of assets tells of."""
    wiped = assets.filter(pc.greater(assets.column(WIPED), 0))
    if not wiped.num_rows or not partitions.num_rows:
        return partitions
    place = pc.index_in(partitions.column(ASSET), value_set=wiped.column(ASSET).combine_chunks())
    seq = wiped.column(WIPED).combine_chunks().take(place)
    older = pc.fill_null(pc.less(partitions.column(VERSION), seq), False)
    if not pc.any(older).as_py():
        return partitions
    for name in partitions.column_names:
        if name in CHANGED:
            place_of = partitions.column_names.index(name)
            field, column = partitions.schema.field(name), partitions.column(name)
            new = pc.if_else(older, _value(name, field.type, seq), column)
            partitions = partitions.set_column(place_of, field, new)
    return partitions


def of_one(assets: ArrowTable, asset_key: str) -> ArrowTable:
    """The row of an asset, if all of it was wiped at some time."""
    wiped = pc.greater(assets.column(WIPED), 0)
    return assets.filter(pc.and_(wiped, pc.equal(assets.column(ASSET), asset_key)))


def needed(only: Sequence[str]) -> list[str]:
    """The columns to be read so that those asked for can be told."""
    return list(dict.fromkeys([*only, ASSET, VERSION]))


def _value(name: str, kind: object, seq: object) -> object:
    if name in _SEQ:
        return seq
    return pa.scalar("", kind) if name in _EMPTY else pa.scalar(None, kind)
