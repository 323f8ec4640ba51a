"""Evaluate automation conditions in a test, as a workspace would.

    instance = ServoInstance.ephemeral()
    result = evaluate_automation_conditions(defs, instance)
    materialize([raw], instance=instance)
    result = evaluate_automation_conditions(defs, instance, cursor=result.cursor)
    assert result.get_num_requested("mart") == 1

Nothing is materialized or written: the cursor holds all that is remembered.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from servo.code.conditions.facts import WorkspaceFacts
from servo.code.conditions.sets import Sets
from servo.core.automation.evaluating import Evaluator
from servo.core.automation.trees import Tree
from servo.errors import Invalid
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.assets.specs import to_key
from servo.sdk.automation.graph import (
    ConditionGraph,
    ConditionSubject,
    all_subjects,
    conditions_of,
    targeted,
    text_of,
)
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.definitions.project import Project
from servo.workspace.instance.instance import ServoInstance


class AutomationCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where an evaluation stopped. Pass it to the next."""

    states: dict[str, str] = {}
    last: datetime | None = None
    seq: int = 0


class EvaluateAutomationConditionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation of conditions requested, and why."""

    cursor: AutomationCursor
    requested: dict[ConditionSubject, tuple[str | None, ...]]
    trees: dict[ConditionSubject, Tree]

    @property
    def total_requested(self) -> int:
        """How many assets, checks and partitions were requested."""
        return sum(len(keys) for keys in self.requested.values())

    def get_requested_partitions(self, asset_key: Any) -> set[str | None]:
        """The requested partitions of an asset or a check; None stands for an unpartitioned one."""
        of = asset_key if isinstance(asset_key, AssetCheckKey) else to_key(asset_key)
        return set(self.requested.get(of, ()))

    def get_num_requested(self, asset_key: Any) -> int:
        """How many partitions of an asset or a check were requested."""
        return len(self.get_requested_partitions(asset_key))


def evaluate_automation_conditions(
    defs: Any,
    instance: ServoInstance,
    asset_selection: Any = None,
    evaluation_time: datetime | None = None,
    cursor: AutomationCursor | None = None,
) -> EvaluateAutomationConditionsResult:
    """Evaluate the conditions of these definitions, continuing from the cursor."""
    project = _project(defs)
    now = _instant(evaluation_time) or instance.world.clock.now()
    before = cursor or AutomationCursor()
    snapshot = snapshot_at(instance.world.store, instance.paths, PRESENT)
    chosen = _chosen(project, asset_selection)
    conditions = conditions_of(project, now, store=Sets(snapshot), chosen=chosen)
    evaluator = Evaluator(conditions.graph, states=before.states, last=before.last)
    WorkspaceFacts(snapshot, conditions.spaces, evaluator).tell(
        snapshot.applied_seq if cursor is None else before.seq
    )
    tick = evaluator.tick(now)
    after = AutomationCursor(
        states={**before.states, **tick.states},
        last=tick.at,
        seq=snapshot.applied_seq,
    )
    return EvaluateAutomationConditionsResult(
        cursor=after,
        requested=_requested(project, conditions, tick.requested),
        trees={
            of: evaluator.tree(name)
            for of in all_subjects(project)
            if (name := text_of(of)) in evaluator.plans
        },
    )


def _project(defs: Any) -> Project:
    if isinstance(defs, Definitions):
        return defs.project()
    if isinstance(defs, Iterable):
        return Definitions(assets=list(defs)).project()  # pyright: ignore[reportUnknownArgumentType] - checked there
    raise Invalid(f"{defs!r} defines nothing", remedy="pass a Definitions or a list of assets")


def _instant(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise Invalid(
            f"evaluation_time {value} has no time zone", remedy="pass an aware datetime, as in UTC"
        )
    return value


def _chosen(project: Project, selection: Any) -> set[ConditionSubject]:
    if selection is None:
        return set(all_subjects(project))
    return targeted(project, selection)


def _requested(
    project: Project, conditions: ConditionGraph, requested: dict[str, int]
) -> dict[ConditionSubject, tuple[str | None, ...]]:
    return {
        of: tuple(conditions.keys(text_of(of).partition(":")[0], bits))
        for of in all_subjects(project)
        if (bits := requested.get(text_of(of), 0))
    }
