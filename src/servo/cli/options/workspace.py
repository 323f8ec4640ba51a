"""The options that select the workspace of a command.

Every command that reads or changes one has the same three options, and the same defaults: the
store of `$SERVO_STORE`, what the project file says, or the folder `.servo`, tenant `default`,
workspace `default`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from servo.cli.options.project import default_store, default_tenant, default_workspace
from servo.cli.rendering.replay_bar import replay_bar
from servo.code.process_setup import ProcessSetup
from servo.errors import NotFound
from servo.workspace.address import DEFAULT_NAME, DEFAULT_STORE, Address
from servo.workspace.channels import AnyChannel
from servo.workspace.code_location import CodeLocation
from servo.workspace.composition import in_memory, without_user_libraries
from servo.workspace.workspace import Replaying, Workspace, open_workspace, unwatched

Command = Callable[..., Any]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a workspace, which need not exist yet."""

    store: str
    tenant: str
    workspace: str

    @property
    def address(self) -> Address:
        """The workspace, in its one spelling."""
        return Address.of(self.store, self.tenant, self.workspace)

    def workspace_or_empty(self) -> Workspace:
        """The workspace, or an empty one in memory if it does not exist: for dry runs."""
        try:
            return open_workspace(self.address)
        except NotFound:
            nowhere, world = Address("memory://", self.tenant, self.workspace), in_memory()
            return Workspace(nowhere, world, AnyChannel(nowhere, world))

    def setup(self, location: CodeLocation, *, stays: bool = False) -> ProcessSetup:
        """Where the workers of a location find everything."""
        return ProcessSetup(location=location, address=self.address, stays=stays)


def at_a_workspace(command: Command) -> Command:
    """Give a command the options that name a workspace, as its argument `where`."""

    @click.option(
        "--store",
        default=default_store,
        show_default=DEFAULT_STORE,
        help="Folder or URL of the store; also set by $SERVO_STORE or the project file.",
    )
    @click.option(
        "--tenant",
        default=default_tenant,
        show_default=DEFAULT_NAME,
        help="Name of the tenant.",
    )
    @click.option(
        "--workspace",
        default=default_workspace,
        show_default=DEFAULT_NAME,
        help="Name of the workspace.",
    )
    @wraps(command)
    def wrapped(*, store: str, tenant: str, workspace: str, **rest: Any) -> Any:
        return command(where=Where(store=store, tenant=tenant, workspace=workspace), **rest)

    return wrapped


def with_workspace(command: Command) -> Command:
    """Give a command the workspace that its options name, as its argument `workspace`.

    Such a command runs no user code, so it needs none of the libraries that only users import. What
    it reads by replaying the ledger has a bar, unless it prints JSON.
    """

    return _given_workspace(command, must_exist=True)


def with_new_workspace(command: Command) -> Command:
    """The same as `with_workspace`, for a command that creates the workspace if there is none."""
    return _given_workspace(command, must_exist=False)


def _given_workspace(command: Command, *, must_exist: bool) -> Command:
    @at_a_workspace
    @wraps(command)
    def wrapped(*, where: Where, **rest: Any) -> Any:
        replaying = unwatched if rest.get("json_") else replay_bar
        found = open_without_user_code(where, replaying, must_exist=must_exist)
        return command(workspace=found, **rest)

    return wrapped


def open_without_user_code(
    where: Where, replaying: Replaying = unwatched, *, must_exist: bool = True
) -> Workspace:
    """The workspace, for a process that runs no user code; pandas alone would take a while."""
    without_user_libraries()
    return open_workspace(where.address, replaying=replaying, must_exist=must_exist)
