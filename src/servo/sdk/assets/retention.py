"""How long the data of an asset is kept."""

from datetime import timedelta
from typing import Any

import msgspec

from servo.core.retention import MOST_AGE_MS
from servo.errors import Invalid

_MILLISECOND = timedelta(milliseconds=1)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the last `versions` of an asset, and all that are younger than `age`.

        @asset(retention=Retention(versions=3, age=timedelta(days=30)))
        def orders(): ...

    Each partition has its own versions. With both, a version is kept if either applies. The latest
    version is always kept.
    """

    versions: int | None = None
    age: timedelta | None = None

    def __post_init__(self) -> None:
        versions: Any = self.versions
        age: Any = self.age
        if versions is None and age is None:
            raise Invalid(
                "Retention() has neither versions nor age",
                remedy="pass versions=3 or age=timedelta(days=30), or leave out retention to "
                "keep every version",
            )
        if versions is not None and (type(versions) is not int or not 1 <= versions <= MOST_AGE_MS):
            raise Invalid(
                f"Retention: versions is {versions!r}",
                remedy="use a whole number of at least 1: the latest version is always kept",
            )
        if age is not None and not isinstance(age, timedelta):
            raise Invalid(
                f"Retention: age is {age!r}",
                remedy="use a timedelta, such as age=timedelta(days=30)",
            )
        if age is not None and not 1 <= age // _MILLISECOND <= MOST_AGE_MS:
            raise Invalid(
                f"Retention: age is {age}",
                remedy="use more than 0 and at most 1000 years, or pass only versions",
            )

    @property
    def age_ms(self) -> int | None:
        """The age in milliseconds, as definitions store it."""
        return None if self.age is None else self.age // _MILLISECOND


def check_retention(value: Any, *, what: str) -> Retention | None:
    """Check that a value is a `Retention` or None."""
    if value is None or isinstance(value, Retention):
        return value
    raise Invalid(
        f"{what}: retention is {value!r}",
        remedy="use Retention(versions=3) or Retention(age=timedelta(days=30))",
    )
