"""Automation conditions: when an asset is materialized automatically.

    AutomationCondition.eager()
    AutomationCondition.on_cron("0 6 * * *") & ~AutomationCondition.in_progress()

A condition is a value: a tree of a few kinds of nodes that can be compared, stored and explained.
`Operand` is a named fact about an asset or a partition; the other nodes combine conditions.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import msgspec

from servo.core.cron import Cron
from servo.core.keys import AssetKey
from servo.errors import Invalid


class AutomationCondition(msgspec.Struct, frozen=True, kw_only=True):
    """When an asset, a partition or a check is materialized automatically.

        @asset(automation_condition=AutomationCondition.eager())
        def report(orders): ...

        AutomationCondition.on_cron("0 6 * * *") & ~AutomationCondition.in_progress()

    Conditions combine with `&` (and), `|` (or) and `~` (not). For a partitioned asset, a condition
    is evaluated for each partition.
    """

    label: str | None = None

    # --- how conditions combine ---------------------------------------------------------------

    def __and__(self, other: Any) -> "AutomationCondition":
        return And(operands=(*_parts(self, And), *_parts(_checked(other), And)))

    def __or__(self, other: Any) -> "AutomationCondition":
        return Or(operands=(*_parts(self, Or), *_parts(_checked(other), Or)))

    def __invert__(self) -> "AutomationCondition":
        return Not(operand=self)

    def with_label(self, label: str | None) -> "AutomationCondition":
        """The same condition with a label, which explanations show."""
        return msgspec.structs.replace(self, label=label)

    def get_label(self) -> str | None:
        """The label of the condition, if it has one."""
        return self.label

    def since(self, reset_condition: "AutomationCondition") -> "AutomationCondition":
        """True if this became true more recently than `reset_condition`."""
        return Since(trigger=self, reset=_checked(reset_condition))

    def newly_true(self) -> "AutomationCondition":
        """True if this is true now and was not at the last evaluation."""
        return NewlyTrue(operand=self)

    def since_last_handled(self) -> "AutomationCondition":
        """True if this became true after the asset was last requested or updated."""
        handled = (
            AutomationCondition.newly_requested()
            | AutomationCondition.newly_updated()
            | AutomationCondition.initial_evaluation()
        ).with_label("handled")
        return self.since(handled)

    def allow(self, selection: Any) -> "AutomationCondition":
        """The same condition, restricted to these dependencies and those already allowed."""
        return self._selected(
            lambda node: msgspec.structs.replace(node, allowed=_either(node.allowed, selection))
        )

    def ignore(self, selection: Any) -> "AutomationCondition":
        """The same condition without these dependencies and those already ignored."""
        return self._selected(
            lambda node: msgspec.structs.replace(node, ignored=_either(node.ignored, selection))
        )

    def _selected(self, change: "Callable[[Deps], Deps]") -> "AutomationCondition":
        if not _looks_at_dependencies(self):
            raise Invalid(
                f"{self} has no condition on dependencies",
                remedy="call allow and ignore on any_deps_…, all_deps_…, eager, on_cron or "
                "on_missing",
            )
        return self._mapped(lambda node: change(node) if isinstance(node, Deps) else node)

    def without(self, condition: "AutomationCondition") -> "AutomationCondition":
        """The same condition without one of its operands of `&`."""
        if not isinstance(self, And) or condition not in self.operands:
            raise Invalid(
                f"{condition} is not an operand of {self}",
                remedy="pass one of its operands, or use replace",
            )
        left = tuple(operand for operand in self.operands if operand != condition)
        return left[0] if len(left) == 1 else msgspec.structs.replace(self, operands=left)

    def replace(
        self, old: "AutomationCondition | str", new: "AutomationCondition"
    ) -> "AutomationCondition":
        """The same condition with every occurrence of a condition, label or name replaced."""
        found = _checked(new)
        return self._mapped(lambda node: found if _is(node, old) else node)

    def _mapped(
        self, change: "Callable[[AutomationCondition], AutomationCondition]"
    ) -> "AutomationCondition":
        """The tree with `change` applied to every node, from the leaves up."""
        return change(self)

    def children(self) -> "tuple[AutomationCondition, ...]":
        """The conditions that it consists of."""
        return ()

    def __str__(self) -> str:
        return self.label or repr(self)

    # --- facts about an asset or a partition --------------------------------------------------

    @staticmethod
    def missing() -> "Operand":
        """True if it was never materialized."""
        return Operand(name="missing")

    @staticmethod
    def in_progress() -> "Operand":
        """True if a run or a backfill is materializing it."""
        return Operand(name="in_progress")

    @staticmethod
    def run_in_progress() -> "Operand":
        """True if a run is materializing it."""
        return Operand(name="run_in_progress")

    @staticmethod
    def backfill_in_progress() -> "Operand":
        """True if a backfill is materializing it."""
        return Operand(name="backfill_in_progress")

    @staticmethod
    def execution_failed() -> "Operand":
        """True if the last attempt to materialize it failed."""
        return Operand(name="execution_failed")

    @staticmethod
    def newly_updated() -> "Operand":
        """True if it was materialized since the last evaluation."""
        return Operand(name="newly_updated")

    @staticmethod
    def newly_requested() -> "Operand":
        """True if the last evaluation requested it."""
        return Operand(name="newly_requested")

    @staticmethod
    def newly_missing() -> "AutomationCondition":
        """True if it is missing and was not at the last evaluation."""
        return AutomationCondition.missing().newly_true().with_label("newly_missing")

    @staticmethod
    def code_version_changed() -> "Operand":
        """True if its code version changed since the last evaluation."""
        return Operand(name="code_version_changed")

    @staticmethod
    def data_version_changed() -> "Operand":
        """True if its data version changed since the last evaluation."""
        return Operand(name="data_version_changed")

    @staticmethod
    def will_be_requested() -> "Operand":
        """True if this evaluation requests it."""
        return Operand(name="will_be_requested")

    @staticmethod
    def initial_evaluation() -> "Operand":
        """True if this condition is evaluated for the first time."""
        return Operand(name="initial_evaluation")

    @staticmethod
    def executed_with_root_target() -> "Operand":
        """True if its last run also materialized the asset that has this condition."""
        return Operand(name="executed_with_root_target")

    @staticmethod
    def executed_with_tags(
        tag_keys: Iterable[str] | None = None, tag_values: Mapping[str, str] | None = None
    ) -> "Operand":
        """True if the run that last materialized it has these tags."""
        values = tuple(sorted((tag_values or {}).items()))
        arguments = (("tag_keys", tuple(sorted(tag_keys or ()))), ("tag_values", values))
        return Operand(name="executed_with_tags", arguments=arguments)

    @staticmethod
    def cron_tick_passed(cron_schedule: str, cron_timezone: str = "UTC") -> "Operand":
        """True if a tick of the schedule has passed since the last evaluation."""
        _ = Cron(cron_schedule, cron_timezone)
        arguments = (("cron_schedule", cron_schedule), ("cron_timezone", cron_timezone))
        return Operand(name="cron_tick_passed", arguments=arguments)

    @staticmethod
    def in_latest_time_window(lookback_delta: timedelta | None = None) -> "Operand":
        """True for the latest time window, or within `lookback_delta`; always if not time-based."""
        if lookback_delta is None:
            return Operand(name="in_latest_time_window")
        seconds = _duration(lookback_delta, "lookback_delta")
        return Operand(name="in_latest_time_window", arguments=(("lookback_delta", seconds),))

    @staticmethod
    def check_passed() -> "Operand":
        """True if the check passed."""
        return Operand(name="check_passed")

    @staticmethod
    def check_failed() -> "Operand":
        """True if the check failed."""
        return Operand(name="check_failed")

    @staticmethod
    def freshness_passed() -> "Operand":
        """True if it is fresh, according to its freshness policy."""
        return Operand(name="freshness_passed")

    @staticmethod
    def freshness_warned() -> "Operand":
        """True if its freshness policy warns."""
        return Operand(name="freshness_warned")

    @staticmethod
    def freshness_failed() -> "Operand":
        """True if it is older than its freshness policy allows."""
        return Operand(name="freshness_failed")

    @staticmethod
    def asset_matches(key: Any, condition: "AutomationCondition") -> "AutomationCondition":
        """True if the condition is true of another asset."""
        return AssetMatches(key=_key(key), operand=_checked(condition))

    # --- facts about what is around it --------------------------------------------------------

    @staticmethod
    def any_deps_match(condition: "AutomationCondition") -> "Deps":
        """True if the condition is true of any upstream asset."""
        return Deps(operand=_checked(condition), every=False)

    @staticmethod
    def all_deps_match(condition: "AutomationCondition") -> "Deps":
        """True if, for every upstream asset, the condition is true of some partition."""
        return Deps(operand=_checked(condition), every=True)

    @staticmethod
    def any_checks_match(
        condition: "AutomationCondition", blocking_only: bool = False
    ) -> "AutomationCondition":
        """True if the condition is true of any of its checks."""
        return Checks(operand=_checked(condition), every=False, blocking_only=blocking_only)

    @staticmethod
    def all_checks_match(
        condition: "AutomationCondition", blocking_only: bool = False
    ) -> "AutomationCondition":
        """True if the condition is true of all of its checks."""
        return Checks(operand=_checked(condition), every=True, blocking_only=blocking_only)

    @staticmethod
    def any_downstream_conditions() -> "Operand":
        """True if the condition of any downstream asset is true."""
        return Operand(name="any_downstream_conditions")

    @staticmethod
    def any_deps_updated() -> "AutomationCondition":
        """True if an upstream asset was updated since the last evaluation, or is requested now."""
        made = (
            AutomationCondition.newly_updated() & ~AutomationCondition.executed_with_root_target()
        ).with_label("newly_updated_without_root")
        updated = made | AutomationCondition.will_be_requested()
        return AutomationCondition.any_deps_match(updated).with_label("any_deps_updated")

    @staticmethod
    def any_deps_missing() -> "AutomationCondition":
        """True if an upstream asset is missing and is not requested now."""
        gone = AutomationCondition.missing() & ~AutomationCondition.will_be_requested()
        return AutomationCondition.any_deps_match(gone).with_label("any_deps_missing")

    @staticmethod
    def any_deps_in_progress() -> "AutomationCondition":
        """True if an upstream asset is being materialized."""
        busy = AutomationCondition.in_progress()
        return AutomationCondition.any_deps_match(busy).with_label("any_deps_in_progress")

    @staticmethod
    def all_deps_updated_since_cron(
        cron_schedule: str, cron_timezone: str = "UTC"
    ) -> "AutomationCondition":
        """True if all upstream assets were updated since the last tick, or are requested now."""
        tick = AutomationCondition.cron_tick_passed(cron_schedule, cron_timezone)
        updated = (
            AutomationCondition.newly_updated().since(tick)
            | AutomationCondition.will_be_requested()
        )
        label = f"all_deps_updated_since_cron({cron_schedule}, {cron_timezone})"
        return AutomationCondition.all_deps_match(updated).with_label(label)

    @staticmethod
    def all_deps_blocking_checks_passed() -> "AutomationCondition":
        """True if all blocking checks of upstream assets passed, or are requested now."""
        passed = AutomationCondition.check_passed() | AutomationCondition.will_be_requested()
        every = AutomationCondition.all_checks_match(passed, blocking_only=True)
        label = "all_deps_blocking_checks_passed"
        return AutomationCondition.all_deps_match(every).with_label(label)

    # --- conditions that are ready to use -----------------------------------------------------

    @staticmethod
    def eager() -> "AutomationCondition":
        """Materialize it when an upstream asset was updated, and when it becomes missing.

        It waits while an upstream asset is missing or in progress, or while it is in progress
        itself. Of time-based partitions, only the latest is requested.
        """
        change = (
            AutomationCondition.newly_missing() | AutomationCondition.any_deps_updated()
        ).since_last_handled()
        return (
            AutomationCondition.in_latest_time_window()
            & change
            & ~AutomationCondition.any_deps_missing()
            & ~AutomationCondition.any_deps_in_progress()
            & ~AutomationCondition.in_progress()
        ).with_label("eager")

    @staticmethod
    def on_cron(cron_schedule: str, cron_timezone: str = "UTC") -> "AutomationCondition":
        """Materialize it once per tick, after all upstream assets were updated since the tick."""
        tick = AutomationCondition.cron_tick_passed(cron_schedule, cron_timezone)
        return (
            AutomationCondition.in_latest_time_window()
            & tick.since_last_handled()
            & AutomationCondition.all_deps_updated_since_cron(cron_schedule, cron_timezone)
        ).with_label(f"on_cron({cron_schedule}, {cron_timezone})")

    @staticmethod
    def on_missing() -> "AutomationCondition":
        """Materialize it when it becomes missing and no upstream asset is missing."""
        gone = AutomationCondition.newly_missing().since_last_handled()
        return (
            AutomationCondition.in_latest_time_window()
            & gone.with_label("missing_since_last_handled")
            & ~AutomationCondition.any_deps_missing()
        ).with_label("on_missing")


class Operand(AutomationCondition, frozen=True, kw_only=True):
    """A fact about an asset, a partition or a check, by its name."""

    name: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments)
        return f"{self.name}({shown})"


class _Many(AutomationCondition, frozen=True, kw_only=True):
    operands: tuple[AutomationCondition, ...]

    def children(self) -> tuple[AutomationCondition, ...]:
        """The conditions it joins."""
        return self.operands

    def _mapped(
        self, change: Callable[[AutomationCondition], AutomationCondition]
    ) -> AutomationCondition:
        mapped = tuple(operand._mapped(change) for operand in self.operands)  # noqa: SLF001 - own kind
        return change(msgspec.structs.replace(self, operands=mapped))


class And(_Many, frozen=True, kw_only=True):
    """True if all operands are true."""

    def __repr__(self) -> str:
        return f"({' & '.join(str(operand) for operand in self.operands)})"


class Or(_Many, frozen=True, kw_only=True):
    """True if any operand is true."""

    def __repr__(self) -> str:
        return f"({' | '.join(str(operand) for operand in self.operands)})"


class _One(AutomationCondition, frozen=True, kw_only=True):
    operand: AutomationCondition

    def children(self) -> tuple[AutomationCondition, ...]:
        """The condition it is about."""
        return (self.operand,)

    def _mapped(
        self, change: Callable[[AutomationCondition], AutomationCondition]
    ) -> AutomationCondition:
        mapped = self.operand._mapped(change)  # noqa: SLF001 - own kind
        return change(msgspec.structs.replace(self, operand=mapped))


class Not(_One, frozen=True, kw_only=True):
    """True if the operand is false."""

    def __repr__(self) -> str:
        return f"~{self.operand}"


class NewlyTrue(_One, frozen=True, kw_only=True):
    """True if the operand is true now and was not at the last evaluation."""

    def __repr__(self) -> str:
        return f"{self.operand}.newly_true()"


class AssetMatches(_One, frozen=True, kw_only=True):
    """A condition on another asset."""

    key: AssetKey

    def __repr__(self) -> str:
        return f"asset_matches({str(self.key)!r}, {self.operand})"


class Deps(_One, frozen=True, kw_only=True):
    """A condition on the upstream assets: on any of them, or on all."""

    every: bool
    allowed: Any = None
    ignored: Any = None

    def __repr__(self) -> str:
        chosen = "" if self.allowed is None else f".allow({self.allowed})"
        chosen += "" if self.ignored is None else f".ignore({self.ignored})"
        return f"{'all' if self.every else 'any'}_deps_match({self.operand}){chosen}"


class Either(msgspec.Struct, frozen=True):
    """The union of several selections."""

    selections: tuple[Any, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.selections))


class Checks(_One, frozen=True, kw_only=True):
    """A condition on the checks of an asset: on any of them, or on all."""

    every: bool
    blocking_only: bool = False

    def __repr__(self) -> str:
        only = ", blocking_only=True" if self.blocking_only else ""
        return f"{'all' if self.every else 'any'}_checks_match({self.operand}{only})"


class Since(AutomationCondition, frozen=True, kw_only=True):
    """True if `trigger` became true more recently than `reset`."""

    trigger: AutomationCondition
    reset: AutomationCondition

    def children(self) -> tuple[AutomationCondition, ...]:
        """The trigger and the reset condition."""
        return (self.trigger, self.reset)

    def _mapped(
        self, change: Callable[[AutomationCondition], AutomationCondition]
    ) -> AutomationCondition:
        trigger, reset = (part._mapped(change) for part in (self.trigger, self.reset))  # noqa: SLF001 - own kind
        return change(msgspec.structs.replace(self, trigger=trigger, reset=reset))

    def __repr__(self) -> str:
        return f"{self.trigger}.since({self.reset})"


def _looks_at_dependencies(condition: AutomationCondition) -> bool:
    below = any(_looks_at_dependencies(child) for child in condition.children())
    return below or isinstance(condition, Deps)


def _either(before: Any, selection: Any) -> Any:
    """The union of a selection and the previous one."""
    held = before.selections if isinstance(before, Either) else (before,)
    if before is None or held == (selection,):
        return selection
    return before if selection in held else Either((*held, selection))


def _is(node: AutomationCondition, old: AutomationCondition | str) -> bool:
    """Whether a node equals `old`, or has it as its label or name."""
    return old in (node, node.label) or (isinstance(node, Operand) and old == node.name)


def _parts(condition: AutomationCondition, kind: type[_Many]) -> tuple[AutomationCondition, ...]:
    """The operands of a condition of this kind, so that `a & b & c` is one node.

    A condition with a label stays a node of its own, so that the label is kept.
    """
    plain = isinstance(condition, kind) and condition.label is None
    return cast("_Many", condition).operands if plain else (condition,)


def _checked(value: Any) -> AutomationCondition:
    if not isinstance(value, AutomationCondition):
        raise Invalid(
            f"{value!r} is not an automation condition",
            remedy="use AutomationCondition.…() and the operators & | ~",
        )
    return value


def _key(value: Any) -> AssetKey:
    found: Any = getattr(value, "key", value)
    if isinstance(found, AssetKey):
        return found
    if isinstance(found, str):
        return AssetKey.from_user_string(found)
    raise Invalid(
        f"asset_matches: {value!r} does not name an asset", remedy="use an asset or an AssetKey"
    )


def _duration(value: Any, what: str) -> int:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise Invalid(f"{what} is {value!r}", remedy="use a timedelta of more than 0")
    return round(value.total_seconds())
