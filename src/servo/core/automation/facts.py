"""The facts about every asset and check, as bitmaps that are updated incrementally.

The reader of the workspace reports what happened: `made`, `running`, `failed`, `wiped`, `checked`.
Each is one bitmap operation, and is noted in `touched`, which tells an evaluation what to look at.
*News* is what happened since the last evaluation; the next evaluation clears it. Reporting the same
twice is harmless, except that it is news again.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from servo.core.automation.assets import Graph, SubjectKey
from servo.core.automation.condition import Operand

MADE = frozenset(
    {
        "missing",
        "newly_updated",
        "data_version_changed",
        "execution_failed",
        "executed_with_root_target",
        "executed_with_tags",
    }
)
RUNNING = frozenset({"in_progress", "run_in_progress"})
BACKFILLING = frozenset({"in_progress", "backfill_in_progress"})
CHECKED = frozenset({"missing", "newly_updated", "check_passed", "check_failed"})
FRESHNESS = frozenset({"freshness_passed", "freshness_warned", "freshness_failed"})
NEWS = frozenset({"newly_updated", "data_version_changed"})


class Facts:
    """The facts about one asset or check: a bitmap of partitions for each."""

    __slots__ = (
        "backfilling",
        "changed",
        "failed",
        "freshness",
        "made",
        "passed",
        "refused",
        "running",
        "tagged",
        "universe",
        "updated",
        "updates",
        "with_root",
    )

    def __init__(self) -> None:
        self.universe = 0
        self.made = 0
        self.running = 0
        self.backfilling = 0
        self.failed = 0
        self.passed = 0
        self.refused = 0
        self.freshness = ""
        self.with_root: dict[str, int] = {}
        self.tagged: dict[Operand, int] = {}
        self.updated = 0
        self.updates: list[tuple[datetime, int]] = []
        self.changed = 0

    def update(self, bits: int, at: datetime) -> None:
        """Report new data of partitions, for the next evaluation."""
        self.updated |= bits
        if self.updates and self.updates[-1][0] == at:
            bits |= self.updates.pop()[1]
        self.updates.append((at, bits))


class ProjectFacts:
    """The facts about every asset and check of a project."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts: dict[SubjectKey, Facts] = {}
        self.touched: dict[tuple[SubjectKey, str], None] = {}
        self.news: dict[SubjectKey, None] = {}
        for asset in graph.assets.values():
            for name in ("", *(check.name for check in asset.checks)):
                self.facts[asset.key, name] = Facts()

    def made(
        self,
        asset: str,
        bits: int,
        at: datetime,
        *,
        with_assets: Collection[str] = (),
        tags: Mapping[str, str] | None = None,
        same_data: int = 0,
    ) -> None:
        """Report that partitions were materialized or observed, and the assets and tags of the run.

        Earlier check results were about older data. `same_data` are the partitions whose data
        version did not change.
        """
        facts = self.facts[asset, ""]
        facts.made |= bits
        facts.failed &= ~bits
        facts.changed |= bits & ~same_data
        facts.update(bits, at)
        for root, held in facts.with_root.items():
            facts.with_root[root] = held | bits if root in with_assets else held & ~bits
        for operand, held in facts.tagged.items():
            facts.tagged[operand] = held | bits if has_tags(tags or {}, operand) else held & ~bits
        self._touch((asset, ""), MADE, news=True)
        for check in self.graph.assets[asset].checks:
            self._forget_results((asset, check.name), bits)

    def wiped(self, asset: str, bits: int) -> None:
        """Report that partitions were wiped; the outcome of their last attempt stays."""
        facts = self.facts[asset, ""]
        facts.made &= ~bits
        facts.with_root = {root: held & ~bits for root, held in facts.with_root.items()}
        facts.tagged = {operand: held & ~bits for operand, held in facts.tagged.items()}
        self._touch((asset, ""), MADE - NEWS - {"execution_failed"})
        for check in self.graph.assets[asset].checks:
            self._forget_results((asset, check.name), bits)

    def failed(self, asset: str, bits: int) -> None:
        """Report that the last attempt to materialize partitions failed."""
        self.facts[asset, ""].failed |= bits
        self._touch((asset, ""), ("execution_failed",))

    def running(self, asset: str, bits: int, *, check: str = "") -> None:
        """Set the partitions that runs are materializing, or that a check is checking."""
        facts = self.facts[asset, check]
        if facts.running != bits:
            facts.running = bits
            if check:
                self._touch((asset, check), RUNNING)
            else:
                self._touch_all(asset, RUNNING)

    def backfilling(self, asset: str, bits: int) -> None:
        """Set the partitions that backfills are materializing."""
        facts = self.facts[asset, ""]
        if facts.backfilling != bits:
            facts.backfilling = bits
            self._touch_all(asset, BACKFILLING)

    def checked(
        self, asset: str, check: str, at: datetime, *, passed: int = 0, failed: int = 0
    ) -> None:
        """Report the results of a check on the latest data of partitions."""
        facts = self.facts[asset, check]
        facts.passed = (facts.passed | passed) & ~failed
        facts.refused = (facts.refused | failed) & ~passed
        facts.update(passed | failed, at)
        self._touch((asset, check), CHECKED, news=True)

    def judged(self, asset: str, freshness: str) -> None:
        """Set the freshness of an asset: PASS, WARN, FAIL, or unknown."""
        facts = self.facts[asset, ""]
        if facts.freshness != freshness:
            facts.freshness = freshness
            self._touch((asset, ""), FRESHNESS)

    def forget_news(self) -> None:
        """Clear the news."""
        for key in self.news:
            facts = self.facts[key]
            facts.updated = facts.changed = 0
            facts.updates = []
            self._touch(key, NEWS)
        self.news = {}

    def _forget_results(self, key: SubjectKey, bits: int) -> None:
        facts = self.facts[key]
        if (facts.passed | facts.refused) & bits:
            facts.passed &= ~bits
            facts.refused &= ~bits
            self._touch(key, CHECKED - NEWS)

    def _touch_all(self, asset: str, aspects: Collection[str]) -> None:
        """Note a change of an asset and its checks: they run with it."""
        self._touch((asset, ""), aspects)
        for check in self.graph.assets[asset].checks:
            self._touch((asset, check.name), aspects)

    def _touch(self, key: SubjectKey, aspects: Collection[str], *, news: bool = False) -> None:
        for aspect in sorted(aspects):
            self.touched[key, aspect] = None
        if news:
            self.news[key] = None


def has_tags(tags: Mapping[str, str], operand: Operand) -> bool:
    """Whether tags match an `executed_with_tags` operand."""
    asked = dict(operand.arguments)
    named = all(key in tags for key in asked["tag_keys"])
    return named and all(tags.get(key) == value for key, value in asked["tag_values"])
