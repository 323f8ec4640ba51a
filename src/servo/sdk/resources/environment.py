"""Values that are known only where the code runs: environment variables and secrets.

Nothing here reads the environment of the process: the process that runs the code passes it once,
with `set_environment`. Every value that is read is redacted from then on (see
`servo.sdk.resources.redaction`), because a variable in a configuration may well be a password.
"""

from collections.abc import Mapping
from typing import Any, Self

from servo.errors import Invalid
from servo.sdk.resources.redaction import hidden

_provided: list[Mapping[str, str]] = []


def set_environment(environ: Mapping[str, str]) -> None:
    """Set the environment variables, once per process and before user code runs."""
    _provided[:] = [environ]


def environment() -> Mapping[str, str]:
    """The environment that was set, or an empty one."""
    return _provided[0] if _provided else {}


class EnvVar(str):
    """The value of an environment variable, read where the code runs.

        Warehouse(url=EnvVar("WAREHOUSE_URL"), port=EnvVar.int("WAREHOUSE_PORT"))

    Pass it to any field of a `Config` or a resource. The value is redacted in logs and errors.
    """

    __slots__ = ()

    @property
    def env_var_name(self) -> str:
        """The name of the variable."""
        return str.__str__(self)

    def get_value(self, default: str | None = None) -> str | None:
        """The current value, or `default`."""
        found = environment().get(self.env_var_name)
        if found is None:
            return default
        hidden().add(found)
        return found

    def __repr__(self) -> str:
        return f"EnvVar({self.env_var_name!r})"

    __str__ = __repr__

    @classmethod
    def int(cls, name: str) -> "IntEnvVar":
        """The value of an environment variable as a whole number."""
        return IntEnvVar(name)


class IntEnvVar(int):
    """A whole number from an environment variable; create one with `EnvVar.int`."""

    env_var_name: str

    def __new__(cls, name: str) -> Self:
        """The number in the variable `name`."""
        made = super().__new__(cls)
        made.env_var_name = name
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.env_var_name,)

    def get_value(self, default: int | None = None) -> int | None:
        """The current value, or `default`."""
        found = environment().get(self.env_var_name)
        return default if found is None else whole_number(found, self, self.env_var_name)

    def __repr__(self) -> str:
        return f"EnvVar.int({self.env_var_name!r})"

    __str__ = __repr__


def read_variable(
    variable: EnvVar | IntEnvVar, environ: Mapping[str, str], where: str
) -> str | int:
    """The value of a variable; `Invalid` if it is not set."""
    name = variable.env_var_name
    found = environ.get(name)
    if found is None:
        raise Invalid(
            f"{where} is {variable!r}, but the environment variable {name} is not set",
            remedy=f"set {name} where the code runs",
        )
    hidden().add(found)
    return whole_number(found, variable, where) if isinstance(variable, IntEnvVar) else found


def whole_number(text: str, variable: IntEnvVar, where: str) -> int:
    """The number in a variable; the error does not show a value that is not a number."""
    hidden().add(text)
    # The value is not shown: it may be a secret in the wrong variable.
    if text.strip().lstrip("+-").isdecimal():
        return int(text)
    raise Invalid(
        f"{where} is {variable!r}, but {variable.env_var_name} is not set to a whole number",
        remedy=f"set {variable.env_var_name} to a whole number",
    )
