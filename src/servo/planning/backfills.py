"""Plan a backfill: which partitions of which assets, and in which chunk.

A backfill has a list of partitions, which are keys of one partitions definition: of the definitions
of its assets, the one that has most of the keys; if several do, the first in topological order.
Assets with this definition are materialized for each of the keys. Assets with other partitions are
materialized once for the partitions that map to these: if they depend on several chunks, with the
last of them, and if several chunks depend on them, with the first. In that case, and if a partition
depends on another of the list, chunks depend on earlier chunks and must not overtake them: the
backfill is linked.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from servo.core import bitmaps
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.planning.partition_choice import Relations
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping_resolution import WHOLE, Moment, SameKey
from servo.sdk.partitions.space import PartitionSpace

DEFAULT_CHUNK_SIZE = 10

_Place = tuple[AssetKey, str]


class Backfilled:
    """The assets of a backfill, and how their partitions depend on each other at one time."""

    def __init__(self, project: Project, keys: Sequence[AssetKey], moment: Moment) -> None:
        self.project = project
        self.relations = Relations(project, moment)
        self.assets = project.executable(keys)
        divided = [key for key in self.assets if self.relations.definition(key) is not None]
        if not divided:
            names = ", ".join(str(key) for key in self.assets[:3])
            raise Invalid(
                f"{names} has no partitions" if names else "no executable asset is selected",
                remedy="select assets with a partitions_def, or use `servo materialize` for the "
                "others",
            )
        self._divided = divided

    def definitions(self) -> dict[PartitionsDefinition, AssetKey]:
        """The partitions definitions of the assets, each with its first asset."""
        found: dict[PartitionsDefinition, AssetKey] = {}
        for key in self._divided:
            definition = self.relations.definition(key)
            if definition is not None:
                _ = found.setdefault(definition, key)
        return found

    def owner(self, typed: Sequence[str]) -> AssetKey:
        """The asset that these stored partition keys belong to."""
        found = self.definitions()
        if len(found) == 1:
            return self._divided[0]
        return max(found.items(), key=lambda one: self._count(one[0], one[1], typed))[1]

    def _count(
        self, definition: PartitionsDefinition, owner: AssetKey, typed: Sequence[str]
    ) -> int:
        space = self.relations.space(owner)
        return sum(1 for key in typed if (plain_key(definition, key) or WHOLE) in space)

    def of(self, owner: AssetKey) -> "OfOne":
        """The backfill over the partitions of one asset."""
        return OfOne(self.project, self.relations, (self.assets, self._divided), owner)


class OfOne:
    """A backfill over the partitions of one asset."""

    def __init__(
        self,
        project: Project,
        relations: Relations,
        assets: tuple[Sequence[AssetKey], Sequence[AssetKey]],
        owner: AssetKey,
    ) -> None:
        self._project = project
        self._relations = relations
        self._assets, self._divided = assets
        definition = relations.definition(owner)
        if definition is None:
            raise Invalid(f"{owner} has no partitions", remedy="select an asset with partitions")
        self.owner = owner
        self.definition = definition
        self.same = [key for key in self._divided if relations.definition(key) == definition]

    @property
    def space(self) -> PartitionSpace:
        """The partitions that exist."""
        return self._relations.space(self.owner)

    @cached_property
    def linked(self) -> bool:
        """Whether a chunk may depend on earlier chunks."""
        if len(self.same) < len(self._assets):
            return True
        return any(
            up in self.same and not isinstance(self._relations.edge(up, key), SameKey)
            for key in self.same
            for up in self._project.upstream[key]
        )

    @cached_property
    def _below(self) -> set[AssetKey]:
        """The assets downstream of partitioned ones, which are materialized after them."""
        found = set(self.same)
        for key in self._assets:
            if any(up in found for up in self._project.upstream[key]):
                found.add(key)
        return found

    def size(self, asked: int | None, total: int) -> int:
        """How many partitions a run materializes, according to the backfill policies."""
        policies = [self._project.makers[key].behaviour.backfill_policy for key in self.same]
        given = [policy.max_partitions_per_run for policy in policies if policy is not None]
        most = [limit for limit in given if limit is not None]
        if most:
            return min([*most, asked or most[0]])
        if not given:
            return asked or DEFAULT_CHUNK_SIZE
        if asked is not None and asked < total:
            raise Invalid(
                f"the chunk size is {asked}, but the backfill_policy of the assets "
                "requires a single run",
                remedy="leave out the chunk size, or change their backfill_policy",
            )
        return max(total, 1)

    def assignment(self, chunks: Sequence[Sequence[str]]) -> dict[int, dict[AssetKey, list[str]]]:
        """The partitions of the other assets, by the chunk that materializes them."""
        places: dict[_Place, int] = {}
        for index, keys in enumerate(chunks):
            own = bitmaps.bitmap(n for key in keys if (n := self.space.ordinal(key)) is not None)
            for key, bits in self._related(own).items():
                self._place(places, key, bits, index)
        for key in self._assets:
            if self._relations.definition(key) is None:
                places[key, WHOLE] = len(chunks) - 1 if key in self._below else 0
        self._refuse_unrelated(key for key, _ in places)
        found: dict[int, dict[AssetKey, list[str]]] = {}
        for (key, name), index in places.items():
            found.setdefault(index, {}).setdefault(key, []).append(name)
        return found

    def _related(self, own: int) -> dict[AssetKey, int]:
        """The partitions of the other assets that map to these."""
        chosen = dict.fromkeys(self.same, own)
        for key in self._divided:
            ups = [up for up in self._project.upstream[key] if up in chosen]
            if key not in chosen and ups:
                edges = [(up, self._relations.edge(up, key)) for up in ups]
                chosen[key] = _union(edge.downstream_bits(chosen[up]) for up, edge in edges)
        for key in reversed(self._divided):
            downs = [down for down in chosen if key in self._project.upstream[down]]
            if key not in chosen and downs:
                edges = [(down, self._relations.edge(key, down)) for down in downs]
                chosen[key] = _union(edge.upstream_bits(chosen[down]) for down, edge in edges)
        return {key: bits for key, bits in chosen.items() if key not in self.same}

    def _refuse_unrelated(self, placed: Iterable[AssetKey]) -> None:
        known = {*placed, *self.same}
        if lost := [key for key in self._divided if key not in known]:
            raise Invalid(
                f"{lost[0]} and {self.owner} have different partitions, and neither is "
                "upstream of the other",
                remedy=f"start a separate backfill of {lost[0]}",
            )

    def _place(self, places: dict[_Place, int], key: AssetKey, bits: int, index: int) -> None:
        for name in self._relations.space(key).keys_of(bits):
            if key in self._below:
                places[key, name] = index
            else:
                _ = places.setdefault((key, name), index)


def _union(several: Iterable[int]) -> int:
    found = bitmaps.EMPTY
    for bits in several:
        found |= bits
    return found


def plain_key(definition: PartitionsDefinition, typed: str) -> str | None:
    """The key for a stored identity; None if it does not belong to this definition."""
    try:
        return definition.plain_key(typed)
    except Invalid:
        return None
