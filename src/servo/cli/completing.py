"""What the shell completes beyond commands and options: asset keys, ids of runs and backfills.

Completion must never complain and hardly ever wait: where there is no workspace, or its store
cannot be read, there is nothing to complete.
"""

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from servo.workspace.workspace import Workspace

MOST = 100


def asset_keys(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Keys of assets that begin with what was typed."""
    del param
    keys = sorted(row.asset_key for row in _rows(context, "assets"))
    return [CompletionItem(key) for key in keys if key.startswith(typed)][:MOST]


def run_ids(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids of runs that begin with what was typed, newest first, with their states."""
    del param
    rows = sorted(_rows(context, "runs"), key=lambda row: row.created_at, reverse=True)
    found = [row for row in rows if row.run_id.startswith(typed)]
    return [CompletionItem(row.run_id, help=row.state.value) for row in found[:MOST]]


def backfill_ids(
    context: click.Context, param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Ids of backfills that begin with what was typed, newest first, with their states."""
    del param
    rows = sorted(_rows(context, "backfills"), key=lambda row: row.created_at, reverse=True)
    found = [row for row in rows if row.backfill_id.startswith(typed)]
    return [CompletionItem(row.backfill_id, help=row.state.value) for row in found[:MOST]]


def _rows(context: click.Context, table: str) -> list[Any]:
    given = context.params
    with suppress(Exception):
        address = import_module("servo.workspace.address").Address
        usual = import_module("servo.cli.project")
        found = address.of(
            given.get("store") or usual.default_store(),
            given.get("tenant") or usual.default_tenant(),
            given.get("workspace") or usual.default_workspace(),
        )
        opened = import_module("servo.workspace.workspace").open_workspace
        workspace: Workspace = opened(found)
        return workspace.read(lambda snapshot: list(snapshot.rows(table)))
    return []
