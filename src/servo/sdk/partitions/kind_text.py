"""Values as strings that name their kind, from which they are made again without their code.

    {"kind":"static","partition_keys":["eu","us"]}

Deployments tell the workspace in this form what readers are to know of user code: how assets are
divided, and how their partitions belong together. A kind that only code knows is `custom`: its
name is told, and whoever asks for the value is told where to ask.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from servo.core.canonical import canonical_str
from servo.errors import Invalid

CUSTOM = "custom"

Told = Mapping[str, Any]
T = TypeVar("T")


def kind_text(told: Told) -> str:
    """The text of a value."""
    return canonical_str(dict(told))


def custom(value: object) -> dict[str, Any]:
    """What is told of a value that only code can make."""
    return {"kind": CUSTOM, "name": type(value).__name__}


class Kinds(Generic[T]):
    """How values are made again from what was told of them, by kind.

    `what` is what they are, in the plural; `instead` is what to do where only code can make one.
    """

    def __init__(
        self, what: str, makers: Mapping[str, Callable[[Told], T]], *, instead: str
    ) -> None:
        self._what = what
        self._makers = makers
        self._instead = instead

    def read(self, text: str) -> T:
        """The value whose text this is; `Invalid` if it is none, or if only code can make it."""
        try:
            return self.made(msgspec.json.decode(text))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Invalid(
                f"{text[:80]!r} is not a stored description of {self._what}: {error}",
                remedy="deploy the code that defines the asset again",
            ) from None

    def made(self, told: Told) -> T:
        """The value of which this was told."""
        kind = told["kind"]
        if kind not in self._makers:
            raise Invalid(
                f"{self._what} of the kind {kind!r} ({told.get('name', 'unknown')}) exist "
                "only in the code that defines them",
                remedy=self._instead,
            )
        return self._makers[kind](told)
