"""Secrets: values that have a name here and are kept somewhere else.

    Definitions(
        assets=[...],
        resources={"warehouse": Warehouse(password=Secret("warehouse_password"))},
        secrets=[EnvSecrets(prefix="SHOP_"), FileSecrets("/run/secrets"), MyVault()],
    )

A `Secret` can be given wherever an `EnvVar` can. Its value is asked for where the code runs, when
the resource or the configuration that holds it is made: the providers are asked in their order, and
the first that has it wins. A provider is any object with `get(name)`, which returns the value or
None. The value is in no event, no payload and no command line, and is hidden in whatever leaves the
process (see `servo.sdk.resources.redaction`).
"""

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from servo.errors import Invalid, ServoError
from servo.sdk.resources.environment import environment
from servo.sdk.resources.redaction import hidden


@runtime_checkable
class SecretProvider(Protocol):
    """A place that secrets are kept in."""

    def get(self, name: str) -> str | None:
        """The value of a secret; None if it is not kept here."""
        ...


class EnvSecrets:
    """Secrets in environment variables, of which only those with a prefix can be read.

    With the prefix `SHOP_` the secret `api-token` is the variable `SHOP_API_TOKEN`, and so is
    `SHOP_API_TOKEN` itself.
    """

    def __init__(self, prefix: str) -> None:
        if not prefix or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", prefix):
            raise Invalid(
                f"EnvSecrets has the prefix {prefix!r}",
                remedy='pass a prefix of the variables that may be read, like "SHOP_"',
            )
        self.prefix = prefix

    def get(self, name: str) -> str | None:
        """The value of the variable that belongs to a secret."""
        variable = name
        if not name.startswith(self.prefix):
            variable = self.prefix + re.sub(r"[^A-Za-z0-9_]", "_", name).upper()
        return environment().get(variable)

    def __repr__(self) -> str:
        return f"EnvSecrets(prefix={self.prefix!r})"


class Secret(str):
    """A secret, read where it is used; can be given to any field of a `Config` or a resource."""

    __slots__ = ()

    def __new__(cls, name: str) -> "Secret":
        """The secret of this name."""
        if not name.strip():
            raise Invalid("a Secret needs a name", remedy='pass one, like Secret("api_token")')
        return super().__new__(cls, name)

    @property
    def secret_name(self) -> str:
        """The name of the secret."""
        return str.__str__(self)

    def get_value(self, default: str | None = None) -> str | None:
        """The value there is now, or `default`."""
        found = _ask(self.secret_name)
        return default if found is None else found

    def __repr__(self) -> str:
        return f"Secret({self.secret_name!r})"

    __str__ = __repr__


def read_secret(secret: Secret, where: str) -> str:
    """The value of a secret; `Invalid` says who was asked if nobody has it."""
    found = _ask(secret.secret_name)
    if found is not None:
        return found
    if not _providers:
        raise Invalid(
            f"{where} is {secret!r}, but no secrets provider is configured",
            remedy='configure one: Definitions(..., secrets=[EnvSecrets(prefix="SHOP_")])',
        )
    asked = ", ".join(map(_told, _providers))
    raise Invalid(
        f"{where} is {secret!r}, which none of {asked} provides",
        remedy="add it there, or fix its name",
    )


def _ask(name: str) -> str | None:
    for provider in _providers:
        found: Any = _asked(provider, name)
        if found is None:
            continue
        if not isinstance(found, str):
            raise Invalid(
                f"{_told(provider)} returned {type(found).__name__} for {name!r}",
                remedy="return a string, or None for a secret that does not exist",
            )
        hidden().add(found)
        return found
    return None


def _asked(provider: SecretProvider, name: str) -> Any:
    try:
        return provider.get(name)
    except ServoError:
        raise
    except Exception as error:
        error.add_note(f"while asking {_told(provider)} for the secret {name!r}")
        raise


def _told(provider: SecretProvider) -> str:
    """A provider as messages name it: nobody knows what the `repr` of another class shows."""
    ours = type(provider).__module__.startswith("servo.")
    return repr(provider) if ours else type(provider).__name__


# --- who is asked ---------------------------------------------------------------------------------

_providers: list[SecretProvider] = []


def set_secrets(providers: Iterable[SecretProvider]) -> None:
    """Say who provides secrets; once for the process, before users' code runs."""
    _providers[:] = checked_providers(providers)


@contextmanager
def providing(providers: Iterable[SecretProvider]) -> Generator[None]:
    """Have these providers asked for a while."""
    before = list(_providers)
    set_secrets(providers)
    try:
        yield
    finally:
        _providers[:] = before


def checked_providers(providers: Iterable[Any]) -> list[SecretProvider]:
    """These providers; `Invalid` names what is none."""
    found = list(providers)
    for provider in found:
        if isinstance(provider, type) or not isinstance(provider, SecretProvider):
            raise Invalid(
                f"secrets contains {provider!r}, which is not a secrets provider",
                remedy="pass objects with a method get(name), such as EnvSecrets(prefix=...)",
            )
    return found
