"""Keys of assets and tasks.

An asset key is a path of one or more parts. People read and type it with dots (`raw.events`);
everything that hashes, sorts or stores uses the canonical form with slashes (`raw/events`). A task
key is `raw/events[day=d:2025-01-15]:materialize`. No part can contain a character with a meaning in
these forms, so different keys never have the same text.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Self, cast

import msgspec

from servo.core.ids import AssetKeyStr, TaskKeyStr, check_text
from servo.errors import Invalid

MAX_PART_BYTES = 255
MAX_KEY_BYTES = 1024

_RESERVED = re.compile(r"[%/\\\[\]:,=]")


class AssetKey(msgspec.Struct, frozen=True, order=True):
    """The key of an asset: `AssetKey(["raw", "events"])`, or `AssetKey("events")` for one part.

    Keys sort part by part, so that assets with the same prefix stay together.
    """

    parts: tuple[str, ...]

    if TYPE_CHECKING:

        def __init__(self, parts: Sequence[str]) -> None: ...

    def __post_init__(self) -> None:
        given: Sequence[str] = self.parts
        parts = (given,) if isinstance(given, str) else _several(given)
        msgspec.structs.force_setattr(self, "parts", parts)
        for part in parts:
            _check_part(part)
        _check_whole(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key of a string in display or canonical form."""
        return cls(text.split("/" if "/" in text else "."))

    @property
    def path(self) -> list[str]:
        """The parts, as a new list."""
        return list(self.parts)

    def to_user_string(self) -> str:
        """The parts joined with slashes."""
        return "/".join(self.parts)

    @classmethod
    def from_user_string(cls, text: str) -> Self:
        """The key of a string from `to_user_string`."""
        return cls(text.split("/"))

    def to_python_identifier(self, suffix: str | None = None) -> str:
        """The parts joined by two underscores."""
        return "__".join([*self.parts, suffix] if suffix is not None else self.parts)

    def has_prefix(self, prefix: Sequence[str]) -> bool:
        """Whether the key begins with these parts."""
        return self.parts[: len(prefix)] == tuple(prefix)

    def with_prefix(self, prefix: Sequence[str]) -> Self:
        """The key with these parts added in front."""
        before = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        return type(self)([*before, *self.parts])

    @property
    def namespace(self) -> tuple[str, ...]:
        """All parts but the last."""
        return self.parts[:-1]

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    def canonical(self) -> AssetKeyStr:
        """The form that is hashed, sorted and stored."""
        return AssetKeyStr("/".join(self.parts))

    def display(self) -> str:
        """The display form: with dots, or with slashes if a part contains a dot."""
        dotted = any("." in part for part in self.parts)
        return ("/" if dotted else ".").join(self.parts)

    def __str__(self) -> str:
        return self.display()


class TaskOperation(StrEnum):
    """What a task does."""

    MATERIALIZE = "materialize"
    CHECK = "check"
    OBSERVE = "observe"
    BACKFILL = "backfill"


def task_key_text(asset: str, partition: str | None, operation: TaskOperation) -> TaskKeyStr:
    """The canonical task key, from the canonical forms of its parts."""
    return TaskKeyStr(f"{place_of(asset, partition)}:{operation.value}")


def place_of(asset: str, partition: str | None) -> str:
    """An asset, or one of its partitions, as an unambiguous string."""
    return f"{asset}[{partition}]" if partition else asset


def _several(given: object) -> tuple[str, ...]:
    """The parts of a key; `Invalid` for anything but strings."""
    parts = tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else (given,)
    for part in parts:
        if not isinstance(part, str):
            raise Invalid(
                f"invalid asset key part {part!r}",
                remedy='use strings: AssetKey("orders"), or AssetKey(["raw", "orders"])',
            )
    return cast("tuple[str, ...]", parts)


def _check_part(part: str) -> None:
    _ = check_text(part, "asset key part", MAX_PART_BYTES)
    if found := _RESERVED.search(part):
        raise Invalid(
            f"asset key part {part!r} contains {found.group()!r}",
            remedy="leave out % / \\ [ ] : , and =; separate parts by passing a list",
        )
    if part != part.strip():
        raise Invalid(f"asset key part {part!r} begins or ends with a space", remedy="strip it")


def _check_whole(parts: tuple[str, ...]) -> None:
    if not parts:
        raise Invalid("an asset key has no parts", remedy="pass at least a name")
    if len(parts) == 1 and "." in parts[0]:
        raise Invalid(
            f"asset key {parts[0]!r} looks like a prefix and a name",
            remedy=f"write AssetKey({parts[0].split('.')!r})",
        )
    if len("/".join(parts).encode()) > MAX_KEY_BYTES:
        raise Invalid(f"an asset key is longer than {MAX_KEY_BYTES} bytes", remedy="shorten it")
