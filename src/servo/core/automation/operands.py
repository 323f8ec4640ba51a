"""The value of every fact: the partitions of an asset, or of the data of a check, it is true of.

A partition that does not exist is in no value. At the first evaluation of a condition nothing
counts as new, so that a new condition does not request everything at once.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from servo.core.automation.assets import subject
from servo.core.automation.compiling import CompiledCondition, Node
from servo.core.automation.view import View, cron_of


def _missing(node: Node, view: View) -> int:
    facts = view.facts(node)
    made = facts.passed | facts.refused if node.key[1] else facts.made
    return facts.universe & ~made


def _in_progress(node: Node, view: View) -> int:
    return _run_in_progress(node, view) | _backfill_in_progress(node, view)


def _run_in_progress(node: Node, view: View) -> int:
    """Whether a run is executing the asset, or the check with its asset or alone."""
    facts = view.asset(node)
    return facts.universe & (facts.running | view.facts(node).running)


def _backfill_in_progress(node: Node, view: View) -> int:
    facts = view.asset(node)
    return facts.universe & facts.backfilling


def _execution_failed(node: Node, view: View) -> int:
    facts = view.facts(node)
    return facts.universe & facts.failed


def _newly_updated(node: Node, view: View) -> int:
    facts = view.facts(node)
    return 0 if node.plan.initial else facts.universe & facts.updated


def _data_version_changed(node: Node, view: View) -> int:
    facts = view.facts(node)
    return 0 if node.plan.initial else facts.universe & facts.changed


def _code_version_changed(node: Node, view: View) -> int:
    """Whether the code version differs from the last evaluation; stores the current one."""
    version = view.world.graph.assets[node.key[0]].code_version
    before, node.memory = node.memory, version
    if before == version:
        return 0
    node.plan.changed = True
    node.text = None
    return 0 if before is None else view.asset(node).universe


def asked_by(node: Node, plans: Mapping[str, CompiledCondition]) -> list[CompiledCondition]:
    """The conditions that ask for what a node is about: a check is run whenever its asset is."""
    names = dict.fromkeys((node.key[0], subject(node.key)))
    return [plans[name] for name in names if name in plans]


def before(node: Node, plans: Mapping[str, CompiledCondition]) -> list[CompiledCondition]:
    """Those of them that are evaluated before the condition that the node is a part of."""
    return [plan for plan in asked_by(node, plans) if plan.rank < node.plan.rank]


def _newly_requested(node: Node, view: View) -> int:
    value = 0
    for plan in asked_by(node, view.plans):
        value |= plan.previous
    return value & view.asset(node).universe


def _will_be_requested(node: Node, view: View) -> int:
    """What was asked for of what comes before, if it can be made in the same run."""
    value = 0
    for plan in before(node, view.plans) if node.together else ():
        value |= plan.root.value
    return value


def _initial_evaluation(node: Node, view: View) -> int:
    return view.facts(node).universe if node.plan.initial else 0


def _executed_with_root_target(node: Node, view: View) -> int:
    facts = view.asset(node)
    return facts.universe & facts.with_root.get(node.plan.asset.key, 0)


def _executed_with_tags(node: Node, view: View) -> int:
    facts = view.asset(node)
    return facts.universe & facts.tagged[node.condition]  # pyright: ignore[reportArgumentType] - an operand


def _cron_tick_passed(node: Node, view: View) -> int:
    passed = cron_of(node) in view.passed and not node.plan.initial
    return view.facts(node).universe if passed else 0


def _in_latest_time_window(node: Node, view: View) -> int:
    space = view.world.graph.assets[node.key[0]].space
    return view.facts(node).universe & space.latest(view.now, node.lookback)


def _check_passed(node: Node, view: View) -> int:
    facts = view.facts(node)
    return facts.universe & facts.passed


def _check_failed(node: Node, view: View) -> int:
    facts = view.facts(node)
    return facts.universe & facts.refused


def _freshness(state: str) -> Callable[[Node, View], int]:
    def of(node: Node, view: View) -> int:
        facts = view.asset(node)
        return facts.universe if facts.freshness == state else 0

    return of


OPERANDS: Mapping[str, Callable[[Node, View], int]] = MappingProxyType(
    {
        "missing": _missing,
        "in_progress": _in_progress,
        "run_in_progress": _run_in_progress,
        "backfill_in_progress": _backfill_in_progress,
        "execution_failed": _execution_failed,
        "newly_updated": _newly_updated,
        "newly_requested": _newly_requested,
        "code_version_changed": _code_version_changed,
        "data_version_changed": _data_version_changed,
        "will_be_requested": _will_be_requested,
        "initial_evaluation": _initial_evaluation,
        "executed_with_root_target": _executed_with_root_target,
        "executed_with_tags": _executed_with_tags,
        "cron_tick_passed": _cron_tick_passed,
        "in_latest_time_window": _in_latest_time_window,
        "check_passed": _check_passed,
        "check_failed": _check_failed,
        "freshness_passed": _freshness("PASS"),
        "freshness_warned": _freshness("WARN"),
        "freshness_failed": _freshness("FAIL"),
    }
)
