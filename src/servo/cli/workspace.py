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

from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore
from servo.runtime.system import SystemClock
from servo.storage.from_url import store_from_url

DEFAULT_STORE = ".servo"

Command = Callable[..., Any]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One workspace in one store."""

    url: str
    store: ObjectStore
    paths: Paths
    clock: Clock


def of_a_workspace(command: Command) -> Command:
    """Give a command the options that name a workspace, as its argument `target`."""

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
        return command(target=open_target(store, tenant, workspace), **rest)

    return wrapped


def open_target(url: str, tenant: str, workspace: str) -> Target:
    """The workspace that is named; `NotFound` if its store is a folder that is not there."""
    paths = Paths(tenant, workspace)
    folder = url.removeprefix("file://")
    if "://" not in folder and not Path(folder).expanduser().is_dir():
        raise NotFound(
            f"there is no store in {folder}",
            remedy="name one with --store or $SERVO_STORE, or make one with `servo demo`",
        )
    clock = SystemClock()
    return Target(url=url, store=store_from_url(url, clock=clock), paths=paths, clock=clock)
