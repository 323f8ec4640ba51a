"""What a node can read when it is evaluated."""

from datetime import UTC, datetime

from servo.core.automation.compiling import CompiledCondition, Node
from servo.core.automation.facts import Facts, ProjectFacts

CronKey = tuple[str, str]

EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


class View:
    """The facts, the other conditions, and the time of one evaluation.

    `last` is the time of the previous one, and `passed` holds the crons that ticked since, with the
    times.
    """

    def __init__(
        self, world: ProjectFacts, plans: dict[str, CompiledCondition], last: datetime | None
    ) -> None:
        self.world = world
        self.plans = plans
        self.last = last
        self.now = EPOCH_START if last is None else last
        self.passed: dict[CronKey, datetime] = {}

    def facts(self, node: Node) -> Facts:
        """The facts about the asset or check of a node."""
        return self.world.facts[node.key]

    def asset(self, node: Node) -> Facts:
        """The facts about the asset of a node, also if the node is about one of its checks."""
        return self.world.facts[node.key[0], ""]


def cron_of(node: Node) -> CronKey:
    """The schedule of a node."""
    arguments = dict(node.arguments)
    return arguments["cron_schedule"], arguments["cron_timezone"]
