"""Selections of assets.

A selection is a value: it compares and prints by its content, is built without a project, and is
resolved against one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast, overload

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition, assets_in
from servo.sdk.assets.specs import AssetSpec, prefix_parts, to_key
from servo.sdk.definitions.project import Project
from servo.sdk.selection.filters import (
    AllAssets,
    AllChecks,
    ChecksOf,
    Group,
    Key,
    Keys,
    OfKind,
    Owner,
    Prefix,
    Selector,
    SomeChecks,
    Tag,
    wildcard,
)
from servo.sdk.selection.grammar import parse_selection
from servo.sdk.selection.operators import (
    Downstream,
    Neighbors,
    Roots,
    Sinks,
    Upstream,
    UpstreamSources,
    WithoutChecks,
    all_of,
    any_of,
    none_of,
)


class AssetSelection(msgspec.Struct, frozen=True):
    """A query over the assets of a project.

        AssetSelection.groups("marketing") & AssetSelection.assets("leads").downstream()

    `|`, `&`, `-` and `~` are set operations over all assets of the project, including external
    ones. Filters leave out external assets unless `include_sources` is set.
    """

    query: Selector

    # --- what to begin with -----------------------------------------------------------------------

    @staticmethod
    def all(include_sources: bool = False) -> "AssetSelection":
        """All assets with code; with `include_sources`, also external assets."""
        return AssetSelection(AllAssets(include_sources))

    @staticmethod
    def assets(*assets_defs: Any) -> "AssetSelection":
        """These assets: definitions, specs, keys, or strings like `"schema/table"`."""
        return AssetSelection(any_of(Key(key) for key in _keys_of(assets_defs)))

    @staticmethod
    def keys(*asset_keys: Any) -> "AssetSelection":
        """The assets with these keys; the older name of `assets`."""
        return AssetSelection.assets(*asset_keys)

    @staticmethod
    def key_prefixes(*key_prefixes: Any, include_sources: bool = False) -> "AssetSelection":
        """The assets whose keys begin with any of these prefixes."""
        prefixes = (prefix_parts(prefix) for prefix in key_prefixes)
        return AssetSelection(any_of(Prefix(prefix, include_sources) for prefix in prefixes))

    @staticmethod
    def key_substring(key_substring: str, include_sources: bool = False) -> "AssetSelection":
        """The assets whose keys contain this string."""
        found = AssetSelection(wildcard(("", key_substring, "")))
        return found if include_sources else found.materializable()

    @staticmethod
    def groups(*group_strs: str, include_sources: bool = False) -> "AssetSelection":
        """The assets in any of these groups."""
        return AssetSelection(any_of(Group(name, include_sources) for name in group_strs))

    @staticmethod
    def tag(key: str, value: str | None, include_sources: bool = False) -> "AssetSelection":
        """The assets with this tag; with None, whatever its value."""
        return AssetSelection(Tag(key, include_sources, value))

    @staticmethod
    def tag_string(string: str, include_sources: bool = False) -> "AssetSelection":
        """The assets with the tag `key=value`, or `key` for any value."""
        key, equal, value = string.partition("=")
        if not key or "=" in value:
            raise Invalid(f"tag {string!r} is not a key and a value", remedy='write "key=value"')
        return AssetSelection.tag(key, value if equal else None, include_sources)

    @staticmethod
    def kind(kind: str | None, include_sources: bool = False) -> "AssetSelection":
        """The assets of this kind; with None, those without a kind."""
        return AssetSelection(OfKind(kind, include_sources))

    @staticmethod
    def owner(owner: str | None, include_sources: bool = False) -> "AssetSelection":
        """The assets of this owner (an e-mail address or `team:name`); with None, of nobody."""
        return AssetSelection(Owner(owner, include_sources))

    @staticmethod
    def checks(*asset_checks: Any) -> "AssetSelection":
        """These checks, without their assets."""
        return AssetSelection(SomeChecks(asset_checks))

    @staticmethod
    def checks_for_assets(*assets_defs: Any) -> "AssetSelection":
        """All checks of these assets, without the assets."""
        return AssetSelection(ChecksOf(tuple(_keys_of(assets_defs))))

    @staticmethod
    def all_asset_checks() -> "AssetSelection":
        """All checks, without their assets."""
        return AssetSelection(AllChecks())

    @staticmethod
    def from_string(string: str) -> "AssetSelection":
        """Parse a selection string such as `'+key:"report" and not tag:"slow"'`."""
        return AssetSelection(parse_selection(string))

    @staticmethod
    def from_coercible(selection: Any) -> "AssetSelection":
        """The selection for a string, an asset, a key, or a list of them."""
        if isinstance(selection, AssetSelection):
            return selection
        if isinstance(selection, str):
            return AssetSelection.from_string(selection)
        if isinstance(selection, Collection) and not isinstance(selection, Mapping):
            items = cast("Collection[Any]", selection)
            return AssetSelection(any_of(_coerced(item).query for item in items))
        return AssetSelection.assets(selection)

    # --- what follows from it ---------------------------------------------------------------------

    def upstream(self, depth: int | None = None, include_self: bool = True) -> "AssetSelection":
        """These assets and their upstream assets with code, up to `depth` layers away."""
        found = AssetSelection(Upstream(self.query, _checked(depth)))
        return found if include_self else found - self

    def downstream(self, depth: int | None = None, include_self: bool = True) -> "AssetSelection":
        """These assets and their downstream assets, up to `depth` layers away."""
        found = AssetSelection(Downstream(self.query, _checked(depth)))
        return found if include_self else found - self

    def roots(self) -> "AssetSelection":
        """The assets with code that have no upstream asset in this selection."""
        return AssetSelection(Roots(self.query))

    def sources(self) -> "AssetSelection":
        """The older name of `roots`."""
        return self.roots()

    def sinks(self) -> "AssetSelection":
        """The assets that have no downstream asset in this selection."""
        return AssetSelection(Sinks(self.query))

    def upstream_source_assets(self) -> "AssetSelection":
        """The external assets upstream of this selection."""
        return AssetSelection(UpstreamSources(self.query))

    def materializable(self) -> "AssetSelection":
        """The assets of this selection that have code."""
        return self & AssetSelection.all()

    def required_multi_asset_neighbors(self) -> "AssetSelection":
        """These assets and all other assets of the same functions."""
        return AssetSelection(Neighbors(self.query))

    def without_checks(self) -> "AssetSelection":
        """These assets without their checks."""
        return AssetSelection(WithoutChecks(self.query))

    def __or__(self, other: Any) -> "AssetSelection":
        if not isinstance(other, AssetSelection):
            return NotImplemented
        return AssetSelection(any_of((self.query, other.query)))

    def __and__(self, other: Any) -> "AssetSelection":
        if not isinstance(other, AssetSelection):
            return NotImplemented
        return AssetSelection(all_of((self.query, other.query)))

    def __sub__(self, other: Any) -> "AssetSelection":
        if not isinstance(other, AssetSelection):
            return NotImplemented
        return self & ~other

    def __invert__(self) -> "AssetSelection":
        return AssetSelection(none_of(self.query))

    # --- what it stands for -----------------------------------------------------------------------

    @overload
    def resolve(self, project: Project) -> list[AssetKey]: ...
    @overload
    def resolve(self, project: Iterable[AssetsDefinition | AssetSpec]) -> frozenset[AssetKey]: ...

    def resolve(self, project: Any) -> list[AssetKey] | frozenset[AssetKey]:
        """The selected assets of a project, in topological order.

        For a list of assets instead of a project, the result is a set of keys, as in Dagster.
        """
        if not isinstance(project, Project):
            return self.resolve_inner(Project(assets_in(project)))
        chosen = self.resolve_inner(project)
        return [key for key in project.order if key in chosen]

    def resolve_inner(self, project: Project) -> Keys:
        """The selected assets as a set; `Invalid` for a key that the project does not have."""
        return self.query.resolve_inner(project)

    def to_selection_str(self) -> str:
        """The text that parses to an equal selection; `Invalid` if there is none."""
        return self.query.to_selection_str()


def _keys_of(assets_defs: Iterable[Any]) -> Iterable[AssetKey]:
    for given in assets_defs:
        if isinstance(given, AssetsDefinition):
            yield from (spec.key for spec in given.specs)
        else:
            yield to_key(given, what="selection")


def _coerced(item: Any) -> AssetSelection:
    """An item of a list, in which a nested list is the parts of a key."""
    if isinstance(item, str | AssetSelection):
        return AssetSelection.from_coercible(item)
    return AssetSelection.assets(item)


def _checked(depth: int | None) -> int | None:
    if depth is not None and depth < 0:
        raise Invalid(f"depth is {depth}", remedy="use 0 or more, or leave it out for all layers")
    return depth
