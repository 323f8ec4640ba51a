"""Choose the partitions of each selected asset from the partition keys of a request.

The keys belong to one partitions definition: the first, in topological order, that has all of them.
Selected assets with this definition are materialized for these keys. Selected assets with other
partitions are materialized for the partitions that map to these, upstream and downstream. Assets
without partitions are materialized once.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from servo.core import bitmaps
from servo.core.keys import AssetKey
from servo.core.partitions import PartitionKey, split_display
from servo.errors import Invalid, NotFound
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import (
    MultiPartitionsDefinition,
    PartitionKeyRange,
    PartitionsDefinition,
)
from servo.sdk.partitions.mapping_resolution import Edge, Moment, edge_between
from servo.sdk.partitions.space import PartitionSpace

Named = str | PartitionKeyRange
"""A partition key, or a range of them, as users write them."""

WantedPartitions = dict[AssetKey, Sequence[int]]
"""The partitions to materialize of each asset, by number; 0 for an unpartitioned asset."""


class Relations:
    """How the partitions of a project's assets depend on each other at one time."""

    def __init__(self, project: Project, moment: Moment) -> None:
        self._project = project
        self.moment = moment.fixed()
        self._edges: dict[tuple[AssetKey, AssetKey], Edge] = {}
        self._spaces: dict[AssetKey, PartitionSpace] = {}

    def definition(self, key: AssetKey) -> PartitionsDefinition | None:
        """The partitions definition of an asset."""
        return self._project.specs[key].partitions_def

    def space(self, key: AssetKey) -> PartitionSpace:
        """The partitions of an asset."""
        found = self._spaces.get(key)
        if found is None:
            found = self._spaces[key] = self.moment.space(self.definition(key))
        return found

    def edge(self, above: AssetKey, below: AssetKey) -> Edge:
        """The mapping between the partitions of an upstream and a downstream asset."""
        found = self._edges.get((above, below))
        if found is None:
            found = self._edges[above, below] = self._made(above, below)
        return found

    def _made(self, above: AssetKey, below: AssetKey) -> Edge:
        mapping = self._project.mappings.get(below, {}).get(above)
        try:
            return edge_between(
                self.definition(above), self.definition(below), mapping, self.moment
            )
        except Invalid as error:
            raise Invalid(
                f"{below} depends on {above}: {error.message}", remedy=error.remedy
            ) from None


def choose_partitions(
    relations: Relations, project: Project, assets: Sequence[AssetKey], keys: Iterable[Named]
) -> WantedPartitions:
    """The partitions to materialize of these assets, which are in topological order."""
    given = list(dict.fromkeys(keys))
    divided = [key for key in assets if relations.definition(key) is not None]
    _check_asked(relations, assets, divided, given)
    if not divided:
        return dict.fromkeys(assets, (0,))
    chosen = _roots(relations, divided, given)
    _walk_down(relations, project, divided, chosen)
    _walk_up(relations, project, divided, chosen)
    if lost := [key for key in divided if key not in chosen]:
        named = next(iter(chosen))
        raise Invalid(
            f"the partitions given are those of {named}; {lost[0]} has other "
            "partitions, and neither is upstream of the other",
            remedy=f"materialize {lost[0]} separately, with its own partitions",
        )
    return {key: tuple(bitmaps.numbers(chosen[key])) if key in chosen else (0,) for key in assets}


def _check_asked(
    relations: Relations,
    assets: Sequence[AssetKey],
    divided: Sequence[AssetKey],
    given: Sequence[Named],
) -> None:
    if given and not divided:
        names = ", ".join(str(key) for key in assets[:3]) or "nothing"
        raise Invalid(
            f"partition {_texts(given)[0]!r} was given, but {names} has no partitions",
            remedy="leave out the partition, or select an asset with partitions",
        )
    if divided and not given:
        space = relations.space(divided[0])
        example = space.key(space.count - 1) if space.count else "KEY"
        names = ", ".join(key.to_user_string() for key in divided[:5])
        raise Invalid(
            f"these assets are partitioned, but no partition was given: {names}",
            remedy=f"pass a partition (such as {example!r}), or exclude them: "
            + " and ".join(f'not key:"{key.to_user_string()}"' for key in divided[:3]),
        )


def _roots(
    relations: Relations, divided: Sequence[AssetKey], given: Sequence[Named]
) -> dict[AssetKey, int]:
    """The assets that have the given keys, and the partitions of these keys."""
    definitions: dict[PartitionsDefinition, AssetKey] = {}
    for key in divided:
        definitions.setdefault(_of(relations, key), key)
    for definition, owner in definitions.items():
        space = relations.space(owner)
        if not _missing(definition, space, given):
            bits = _bits(definition, space, given)
            return {key: bits for key in divided if _of(relations, key) == definition}
    raise _refusal(relations, definitions, given)


def _texts(given: Sequence[Named]) -> list[str]:
    """All keys of a request, including the ends of ranges."""
    return [text for one in given for text in (one if isinstance(one, tuple) else (one,))]


def _missing(
    definition: PartitionsDefinition, space: PartitionSpace, given: Sequence[Named]
) -> list[str]:
    strings = _texts(given)
    return [text for text in strings if key_as_written(definition, space, text) is None]


def _bits(definition: PartitionsDefinition, space: PartitionSpace, given: Sequence[Named]) -> int:
    """The set of the given partitions, all of which exist."""

    def read(text: str) -> str:
        return key_as_written(definition, space, text) or text

    found = space.bits(read(one) for one in given if not isinstance(one, tuple))
    for one in given:
        if isinstance(one, tuple):
            found |= space.between(read(one.start), read(one.end))
    return found


def _refusal(
    relations: Relations,
    definitions: Mapping[PartitionsDefinition, AssetKey],
    given: Sequence[Named],
) -> NotFound:
    """The error that names a missing key, for the definition that lacks the fewest."""
    wrong = [
        (_missing(definition, relations.space(owner), given), owner)
        for definition, owner in definitions.items()
    ]
    missing, owner = min(wrong, key=lambda one: len(one[0]))
    more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
    return NotFound(
        f"{owner} has no partition {missing[0]!r}{more}", remedy=relations.space(owner).remedy()
    )


def _of(relations: Relations, key: AssetKey) -> Any:
    return relations.definition(key)


def key_as_written(
    definition: PartitionsDefinition, space: PartitionSpace, text: str
) -> str | None:
    """The key for a string: a plain key, with dimension names, as displayed or as stored."""
    if text in space:
        return text
    for read in (_stored, _named, _shown):
        with suppress(Invalid):
            key = read(definition, text)
            if key in space:
                return key
    return None


def _stored(definition: PartitionsDefinition, text: str) -> str:
    return definition.plain_key(PartitionKey.parse(text).canonical())


def _named(definition: PartitionsDefinition, text: str) -> str:
    if not isinstance(definition, MultiPartitionsDefinition):
        return text
    return definition.join(split_display(text, list(definition.partitions_defs)))


def _shown(definition: PartitionsDefinition, text: str) -> str:
    kinds = {name: one.value_type() for name, one in definition.dimensions().items()}
    return definition.plain_key(PartitionKey.from_display(text, kinds).canonical())


def _walk_down(
    relations: Relations,
    project: Project,
    divided: Sequence[AssetKey],
    chosen: dict[AssetKey, int],
) -> None:
    """Add the partitions downstream of the chosen ones."""
    for key in divided:
        ups = [up for up in project.upstream[key] if up in chosen and up != key]
        if key not in chosen and ups:
            reached = 0
            for up in ups:
                reached |= relations.edge(up, key).downstream_bits(chosen[up])
            chosen[key] = reached


def _walk_up(
    relations: Relations,
    project: Project,
    divided: Sequence[AssetKey],
    chosen: dict[AssetKey, int],
) -> None:
    """Add the partitions upstream of the chosen ones."""
    for key in reversed(divided):
        downs = [d for d in divided if d in chosen and d != key and key in project.upstream[d]]
        if key not in chosen and downs:
            reached = 0
            for down in downs:
                reached |= relations.edge(key, down).upstream_bits(chosen[down])
            chosen[key] = reached
