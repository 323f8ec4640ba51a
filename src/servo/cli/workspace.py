"""Which workspace a command is about.

Every command that reads or changes one has the same three options, and the same defaults: the
store of `$SERVO_STORE` or the folder `.servo`, tenant `default`, workspace `default`.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from servo.code.setting import CodeLocation, Setting
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import without_pandas
from servo.storage.from_url import store_from_url
from servo.workspace.address import DEFAULT_STORE, Address
from servo.workspace.system import SystemClock
from servo.workspace.workspace import open_workspace

Command = Callable[..., Any]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One workspace in one store."""

    url: str
    store: ObjectStore
    paths: Paths
    clock: Clock


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What names a workspace, which need not exist yet."""

    store: str
    tenant: str
    workspace: str

    @property
    def url(self) -> str:
        """The store, wherever it is looked at from."""
        return self.store if "://" in self.store else str(Path(self.store).expanduser().absolute())

    @property
    def address(self) -> Address:
        """The workspace, in its one spelling."""
        return Address.of(self.store, self.tenant, self.workspace)

    def setting(self, location: CodeLocation, *, stays: bool = False) -> Setting:
        """Where the workers of a location find everything."""
        return Setting(
            location=location,
            store=self.address.store,
            tenant=self.tenant,
            workspace=self.workspace,
            stays=stays,
        )

    def open(self) -> Target:
        """The workspace; `NotFound` if its store is a folder that is not there."""
        return open_target(self.store, self.tenant, self.workspace)


def at_a_workspace(command: Command) -> Command:
    """Give a command the options that name a workspace, as its argument `where`."""

    @click.option(
        "--store",
        envvar="SERVO_STORE",
        default=DEFAULT_STORE,
        show_default=True,
        help="Folder or URL of the store; also $SERVO_STORE.",
    )
    @click.option("--tenant", default="default", show_default=True, help="Name of the tenant.")
    @click.option(
        "--workspace", default="default", show_default=True, help="Name of the workspace."
    )
    @wraps(command)
    def wrapped(*, store: str, tenant: str, workspace: str, **rest: Any) -> Any:
        return command(where=Where(store=store, tenant=tenant, workspace=workspace), **rest)

    return wrapped


def of_a_workspace(command: Command) -> Command:
    """Give a command the workspace that its options name, as its argument `target`.

    Such a command runs no code of users, so it needs none of the libraries that only they may.
    """

    @at_a_workspace
    @wraps(command)
    def wrapped(*, where: Where, **rest: Any) -> Any:
        without_pandas()
        return command(target=where.open(), **rest)

    return wrapped


def with_workspace(command: Command) -> Command:
    """Give a command the workspace that its options name, as its argument `workspace`.

    Such a command runs no user code, so it needs none of the libraries that only users import.
    """

    @at_a_workspace
    @wraps(command)
    def wrapped(*, where: Where, **rest: Any) -> Any:
        without_pandas()
        return command(workspace=open_workspace(where.address), **rest)

    return wrapped


def open_target(url: str, tenant: str, workspace: str) -> Target:
    """The workspace that is named; `NotFound` if its store is a folder that is not there."""
    paths = Paths(tenant, workspace)
    folder = url.removeprefix("file://")
    if "://" not in folder and not Path(folder).expanduser().is_dir():
        raise NotFound(
            f"there is no store in {folder}",
            remedy="make one with `servo materialize`, or name it with --store or $SERVO_STORE",
        )
    clock = SystemClock()
    return Target(url=url, store=store_from_url(url, clock=clock), paths=paths, clock=clock)
