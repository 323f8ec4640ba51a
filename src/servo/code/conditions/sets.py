"""The dynamic partitions of one snapshot of a workspace: keys, and the number of each."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from servo.errors import NotFound

_COLUMNS = ("set_name", "partition_key", "number", "row_version")


class Sets:
    """What conditions and their plans ask about dynamic partitions, all as of one entry."""

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The keys of a set, in the order in which they were added."""
        return list(self.dynamic_numbers(partitions_def_name))

    def dynamic_numbers(self, partitions_def_name: str) -> Mapping[str, int]:
        """The number of each key of a set; 0 for one that was published without."""
        return self._sets.get(partitions_def_name, {})

    @cached_property
    def _sets(self) -> dict[str, dict[str, int]]:
        table = self._snapshot.table("dynamic_partitions", only=_COLUMNS)
        order = [("row_version", "ascending"), ("partition_key", "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).to_pylist()
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row["set_name"], {})[row["partition_key"]] = row["number"]
        return found


class SetsOnDemand:
    """The same of a snapshot that is opened when a set is asked for; few plans need one."""

    def __init__(self, open_snapshot: Callable[[], Any]) -> None:
        self._open = open_snapshot

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The keys of a set; none in a workspace that does not exist yet."""
        return [] if self._sets is None else self._sets.get_dynamic_partitions(partitions_def_name)

    @cached_property
    def _sets(self) -> Sets | None:
        try:
            return Sets(self._open())
        except NotFound:
            return None
