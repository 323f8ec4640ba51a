"""Sets of dynamic partitions: list, add and delete their keys."""

from collections.abc import Sequence

import msgspec

from servo.core.events.assets import DynamicPartitionsChanged
from servo.errors import NotFound
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.roles import operation
from servo.projection.partitions.report import PartitionReader
from servo.projection.read.reader import Snapshot
from servo.sdk.partitions.definition import checked_keys
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

_SHOWN = 5


class PartitionSetChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed in a set, and the receipt; None if there was nothing to do."""

    set_name: str
    added: list[str] = []
    removed: list[str] = []
    receipt: Receipt | None = None


@operation
def keys_of_set(workspace: Workspace, set_name: str, *, as_of: AsOf = PRESENT) -> list[str]:
    """The keys of a set in the order in which they were added."""

    def use(snapshot: Snapshot) -> list[str]:
        return list(PartitionReader(snapshot, workspace.now()).get_dynamic_partitions(set_name))

    return workspace.read(use, as_of=as_of)


@operation
def add_partitions(workspace: Workspace, set_name: str, keys: Sequence[str]) -> PartitionSetChange:
    """Add keys to a set; existing keys keep their place."""
    asked = checked_keys(dict.fromkeys(keys), what=f"partitions of {set_name}", empty=False)
    known = set(keys_of_set(workspace, set_name))
    added = [key for key in asked if key not in known]
    return _changed(workspace, PartitionSetChange(set_name=set_name, added=added))


@operation
def delete_partitions(
    workspace: Workspace, set_name: str, keys: Sequence[str]
) -> PartitionSetChange:
    """Delete keys from a set, all or none of them. Their outputs are kept."""
    removed, known = list(dict.fromkeys(keys)), keys_of_set(workspace, set_name)
    for key in removed:
        if key not in known:
            raise NotFound(f"{set_name} has no partition {key!r}", remedy=_remedy(known))
    return _changed(workspace, PartitionSetChange(set_name=set_name, removed=removed))


def _changed(workspace: Workspace, change: PartitionSetChange) -> PartitionSetChange:
    if not change.added and not change.removed:
        return change
    event = DynamicPartitionsChanged(
        set_name=change.set_name, added=tuple(change.added), removed=tuple(change.removed)
    )
    return msgspec.structs.replace(change, receipt=workspace.submit(event).checked())


def _remedy(known: Sequence[str]) -> str:
    if not known:
        return "the set is empty: add keys with `servo partitions add`"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"it has {', '.join(known[:_SHOWN])}{more}"
