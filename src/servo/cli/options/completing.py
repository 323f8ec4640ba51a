"""Shell completion of arguments: asset keys, ids of runs and backfills.

Completion never fails and hardly ever waits: if there is no workspace, or its store cannot be read,
there is nothing to complete.
"""

from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


def asset_keys(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Keys of assets that begin with what was typed."""
    del param
    return _completed(context, "complete_assets", typed)


def run_ids(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids of runs that begin with what was typed, newest first, with their states."""
    del param
    return _completed(context, "complete_runs", typed)


def backfill_ids(
    context: click.Context, param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Ids of backfills that begin with what was typed, newest first, with their states."""
    del param
    return _completed(context, "complete_backfills", typed)


def _completed(context: click.Context, operation: str, typed: str) -> list[CompletionItem]:
    # Imported now: every command imports this module, and hardly any run of it completes.
    with suppress(Exception):
        workspace = _workspace(context)
        found = getattr(import_module("servo.operations.completion"), operation)(workspace, typed)
        return [CompletionItem(one.value, help=one.description or None) for one in found]
    return []


def _workspace(context: click.Context) -> Any:
    """The workspace that the options name so far."""
    made, given = import_module("servo.cli.options.workspace"), context.params
    usual = import_module("servo.cli.options.project")
    where = made.Where(
        store=given.get("store") or usual.default_store(),
        tenant=given.get("tenant") or usual.default_tenant(),
        workspace=given.get("workspace") or usual.default_workspace(),
    )
    return made.open_without_user_code(where)
