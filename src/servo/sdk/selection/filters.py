"""The parts of a selection that look at one asset at a time.

Each is a value that stands for a set of keys in any project. Filters leave out external assets
unless `include_sources` is set; a key or a wildcard includes them.
"""

from difflib import get_close_matches
from typing import Any, ClassVar

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import AssetSpec
from servo.sdk.definitions.project import Project
from servo.sdk.selection.tokens import quoted

Keys = frozenset[AssetKey]

# How tightly the text of a selector binds.
OR, AND, NOT, TRAVERSAL, OPERAND = range(5)


class Selector(msgspec.Struct, frozen=True):
    """One condition or operation of a selection."""

    binding: ClassVar[int] = OPERAND

    def resolve_inner(self, project: Project) -> Keys:
        """The selected assets; `Invalid` for a key that the project does not have."""
        raise NotImplementedError

    def to_selection_str(self) -> str:
        """The text that parses to this selection; `Invalid` if the grammar cannot express it."""
        raise Invalid(f"{self!r} cannot be written as text", remedy="pass the selection itself")

    def operand_str(self, loosest: int) -> str:
        """The text as an operand, in parentheses unless it binds at least as tightly."""
        text = self.to_selection_str()
        return text if self.binding >= loosest else f"({text})"


class AllAssets(Selector, frozen=True):
    """All assets."""

    include_sources: bool = False

    def resolve_inner(self, project: Project) -> Keys:
        """All assets with code, or all."""
        return frozenset(project.specs if self.include_sources else project.makers)

    def to_selection_str(self) -> str:
        """A star, or every key."""
        return 'key:"*"' if self.include_sources else "*"


class Key(Selector, frozen=True):
    """One asset."""

    key: AssetKey

    def resolve_inner(self, project: Project) -> Keys:
        """The asset; `Invalid` with the closest key if there is none."""
        if self.key not in project.specs:
            raise _unknown(self.key, project)
        return frozenset((self.key,))

    def to_selection_str(self) -> str:
        """The whole key."""
        return f"key:{quoted(self.key.canonical())}"


class Wildcard(Selector, frozen=True):
    """Assets whose keys, with slashes or as displayed, match `pieces` with anything in between."""

    pieces: tuple[str, ...]

    def resolve_inner(self, project: Project) -> Keys:
        """The matching assets, perhaps none."""
        return frozenset(
            key
            for key in project.specs
            if _fits(self.pieces, key.canonical()) or _fits(self.pieces, key.display())
        )

    def to_selection_str(self) -> str:
        """The pieces with stars in between."""
        return f"key:{quoted(*self.pieces)}"


class Prefix(Selector, frozen=True):
    """Assets whose keys begin with these parts; a wildcard could end inside a part."""

    prefix: tuple[str, ...]
    include_sources: bool = False

    def resolve_inner(self, project: Project) -> Keys:
        """The assets that match, perhaps none."""
        among = AllAssets(self.include_sources).resolve_inner(project)
        return frozenset(key for key in among if key.parts[: len(self.prefix)] == self.prefix)


NULL = "<null>"
"""Stands for a missing value: `owner:<null>` selects assets without an owner."""


class Filter(Selector, frozen=True):
    """Assets by an attribute; without a name, those that do not have it."""

    name: str | None
    include_sources: bool = False

    word: ClassVar[str]

    def matches(self, spec: AssetSpec) -> bool:
        """Whether a spec has the attribute."""
        raise NotImplementedError

    def resolve_inner(self, project: Project) -> Keys:
        """The assets that match, perhaps none."""
        among = AllAssets(self.include_sources).resolve_inner(project)
        return frozenset(key for key in among if self.matches(project.specs[key]))

    def to_selection_str(self) -> str:
        """The filter and the name; the grammar cannot express `include_sources`."""
        if self.include_sources:
            return Selector.to_selection_str(self)
        return f"{self.word}:{NULL if self.name is None else quoted(self.name)}"


class Group(Filter, frozen=True):
    """The assets of a group."""

    word = "group"

    def matches(self, spec: AssetSpec) -> bool:
        """Whether the asset is in the group; assets without a group are in `default`."""
        if self.name is None:
            return spec.group_name is None
        return (spec.group_name or "default") == self.name


class Owner(Filter, frozen=True):
    """The assets of an owner."""

    word = "owner"

    def matches(self, spec: AssetSpec) -> bool:
        """Whether it is one of the owners."""
        return self.name in spec.owners if self.name is not None else not spec.owners


class OfKind(Filter, frozen=True):
    """The assets of a kind."""

    word = "kind"

    def matches(self, spec: AssetSpec) -> bool:
        """Whether it is one of the kinds."""
        return self.name in spec.kinds if self.name is not None else not spec.kinds


class Tag(Filter, frozen=True):
    """The assets with a tag; with None, whatever its value."""

    value: str | None = None

    word = "tag"

    def matches(self, spec: AssetSpec) -> bool:
        """Whether the asset has the tag."""
        if self.name is None:
            return not spec.tags
        if self.value is None:
            return self.name in spec.tags
        return spec.tags.get(self.name) == self.value

    def to_selection_str(self) -> str:
        """The tag, and its value if there is one."""
        text = Filter.to_selection_str(self)
        return text if self.value is None else f"{text}={quoted(self.value)}"


class AllChecks(Selector, frozen=True):
    """All checks."""

    def resolve_inner(self, project: Project) -> Keys:
        """No assets."""
        del project
        return frozenset()


class SomeChecks(AllChecks, frozen=True):
    """Some checks."""

    asset_checks: tuple[Any, ...]


class ChecksOf(AllChecks, frozen=True):
    """The checks of some assets."""

    asset_keys: tuple[AssetKey, ...]


def wildcard(pieces: tuple[str, ...]) -> Selector:
    """The assets whose keys match these pieces with anything in between."""
    return AllAssets(include_sources=True) if pieces == ("", "") else Wildcard(pieces)


def _fits(pieces: tuple[str, ...], text: str) -> bool:
    first, *middle, last = pieces
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _unknown(key: AssetKey, project: Project) -> Invalid:
    known = {text: other for other in project.specs for text in (other.name, str(other))}
    close = get_close_matches(str(key), known, n=1)
    return Invalid(
        f"selection: there is no asset {key}",
        remedy=f"did you mean {str(known[close[0]])!r}?"
        if close
        else "select an asset that is defined",
    )
