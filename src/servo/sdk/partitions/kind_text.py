"""Values as strings that name their kind, so that they can be read without their code.

    {"kind":"static","partition_keys":["eu","us"]}

A deployment stores in this form what readers need to know about user code: partitions definitions
and partition mappings. A kind that only user code knows is stored as `custom` with its name, and
reading it fails with a remedy.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from servo.core.canonical import canonical_str
from servo.errors import Invalid

CUSTOM = "custom"

KindFields = Mapping[str, Any]
T = TypeVar("T")


def kind_text(told: KindFields) -> str:
    """The string form of a value."""
    return canonical_str(dict(told))


def custom(value: object) -> dict[str, Any]:
    """The stored form of a value that only user code can create."""
    return {"kind": CUSTOM, "name": type(value).__name__}


class Kinds(Generic[T]):
    """How values are read from their stored form, by kind.

    `what` names the values in the plural; `instead` is the remedy for a custom value.
    """

    def __init__(
        self, what: str, makers: Mapping[str, Callable[[KindFields], T]], *, instead: str
    ) -> None:
        self._what = what
        self._makers = makers
        self._instead = instead

    def read(self, text: str) -> T:
        """The value of a string; `Invalid` if it is malformed or custom."""
        try:
            return self.made(msgspec.json.decode(text))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Invalid(
                f"{text[:80]!r} is not a stored description of {self._what}: {error}",
                remedy="deploy the code that defines the asset again",
            ) from None

    def made(self, told: KindFields) -> T:
        """The value of a stored form."""
        kind = told["kind"]
        if kind not in self._makers:
            raise Invalid(
                f"{self._what} of the kind {kind!r} ({told.get('name', 'unknown')}) exist "
                "only in the code that defines them",
                remedy=self._instead,
            )
        return self._makers[kind](told)
