"""Placeholders for unsupported names: they can be mentioned, but not used."""

from typing import Any, Never

from servo.errors import Invalid


class Unsupported:
    """An unsupported name of Dagster, which raises an error with the reason when it is used."""

    def __init__(self, name: str, reason: str) -> None:
        self._name = name
        self._reason = reason

    def _refuse(self) -> Never:
        raise Invalid(f"dagster.{self._name} is not supported", remedy=self._reason)

    def __call__(self, *args: Any, **options: Any) -> Never:
        del args, options
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by inspect, copy, pickle, typing and the like
            raise AttributeError(name)
        self._refuse()

    def __getitem__(self, item: Any) -> "Unsupported":
        return self  # in an annotation

    def __or__(self, other: Any) -> "Unsupported":
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Never:
        self._refuse()

    def __repr__(self) -> str:
        return f"<dagster.{self._name}, which is not supported>"
