"""Secrets: values that have a name in the code and are kept elsewhere.

    Definitions(
        assets=[...],
        resources={"warehouse": Warehouse(password=Secret("warehouse_password"))},
        secrets=[EnvSecrets(prefix="SHOP_"), FileSecrets("/run/secrets"), MyVault()],
    )

Pass a `Secret` wherever an `EnvVar` is accepted. Its value is read where the code runs, when the
resource or configuration is initialized: the providers are tried in order, and the first that has
the secret wins. A provider is any object with `get(name)`, which returns the value or None. The
value is in no event, payload or command line, and is redacted in everything that leaves the process
(see `servo.sdk.resources.redaction`).
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
    """A source of secrets: any object with a method `get`."""

    def get(self, name: str) -> str | None:
        """The value of a secret; None if this provider does not have it."""
        ...


class EnvSecrets:
    """Secrets in environment variables with a prefix; other variables cannot be read.

    With the prefix `SHOP_`, the secret `api-token` is the variable `SHOP_API_TOKEN`, and so is
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
        """The value of the variable for a secret."""
        variable = name
        if not name.startswith(self.prefix):
            variable = self.prefix + re.sub(r"[^A-Za-z0-9_]", "_", name).upper()
        return environment().get(variable)

    def __repr__(self) -> str:
        return f"EnvSecrets(prefix={self.prefix!r})"


class Secret(str):
    """A secret, read where the code runs: pass it to any field of a `Config` or a resource.

        Warehouse(password=Secret("warehouse_password"))

    `Definitions(secrets=[...])` lists the providers that are tried.
    """

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
        """The current value, or `default`."""
        found = _ask(self.secret_name)
        return default if found is None else found

    def __repr__(self) -> str:
        return f"Secret({self.secret_name!r})"

    __str__ = __repr__


def read_secret(secret: Secret, where: str) -> str:
    """The value of a secret; `Invalid` names the providers if none has it."""
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
    """The name of a provider for messages: its `repr` might show a secret."""
    ours = type(provider).__module__.startswith("servo.")
    return repr(provider) if ours else type(provider).__name__


# --- who is asked ---------------------------------------------------------------------------------

_providers: list[SecretProvider] = []


def set_secrets(providers: Iterable[SecretProvider]) -> None:
    """Set the secrets providers, once per process and before user code runs."""
    _providers[:] = checked_providers(providers)


@contextmanager
def providing(providers: Iterable[SecretProvider]) -> Generator[None]:
    """Use these providers within a block."""
    before = list(_providers)
    set_secrets(providers)
    try:
        yield
    finally:
        _providers[:] = before


def checked_providers(providers: Iterable[Any]) -> list[SecretProvider]:
    """Check that all values are secrets providers."""
    found = list(providers)
    for provider in found:
        if isinstance(provider, type) or not isinstance(provider, SecretProvider):
            raise Invalid(
                f"secrets contains {provider!r}, which is not a secrets provider",
                remedy="pass objects with a method get(name), such as EnvSecrets(prefix=...)",
            )
    return found
