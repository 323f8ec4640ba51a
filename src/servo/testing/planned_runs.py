"""Runs of plans that a test made itself, started the way every run is."""

from collections.abc import Mapping
from typing import Any

from servo.core.plan import Plan
from servo.host.leading import LeadingHost
from servo.operations.run_requests import PreparedRun, start_run


def start_plan(
    host: LeadingHost,
    plan: Plan,
    run_key: str,
    *,
    tags: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    location: str = "assets.py",
) -> str:
    """Start a run of a plan; its id."""
    prepared = PreparedRun(
        plan=plan,
        text="",
        location=location,
        labels=tags or {},
        config=config or {},
        run_key=run_key,
    )
    return start_run(host.workspace, prepared).run_id
