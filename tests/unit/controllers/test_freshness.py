"""Freshness is proposed when it changes, and at no other time."""

from datetime import timedelta

import pytest

from servo.controllers import freshness
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.freshness import FreshnessChanged
from servo.core.freshness import FreshnessState, MaxAge, policy_text
from servo.core.state.state import State
from servo.testing.builders import Story

HOUR_MS = 3_600_000
WINDOW = policy_text(MaxAge(fail_ms=2 * HOUR_MS, warn_ms=HOUR_MS))


class Project:
    """Assets with policies, made when told to."""

    def __init__(self, **policies: str) -> None:
        self.story = Story()
        self.runs = 0
        self.deploy(**policies)

    def deploy(self, **policies: str) -> None:
        assets = tuple(
            AssetDefinition(asset_key=f"ns/{name}", freshness_policy=policy)
            for name, policy in policies.items()
        )
        self.runs += 1
        self.story.tell(DefinitionsDeployed(deployment_id=f"d{self.runs}", assets=assets))

    def make(self, name: str) -> None:
        self.runs += 1
        self.story.plan({name: ()}, f"run_{self.runs}")
        self.story.execute(name, run_id=f"run_{self.runs}")

    def changes(self) -> list[tuple[str, str]]:
        """What is proposed now, applied."""
        story = self.story
        found: list[tuple[str, str]] = []
        for proposal in freshness.reconcile(story.state, story.now):
            assert story.tell(*proposal.events).applied
            for event in proposal.events:
                assert isinstance(event, FreshnessChanged)
                found.append((event.asset_key, event.state.value))
        assert freshness.reconcile(story.state, story.now) == []
        return found


def test_an_asset_passes_warns_fails_and_passes_again() -> None:
    project = Project(a=WINDOW, b="")
    assert project.changes() == []
    project.make("a")
    project.make("b")
    assert project.changes() == [("ns/a", "PASS")]
    made = project.story.state.ts
    due = freshness.next_due(project.story.state)
    assert due is not None
    assert timedelta(minutes=59) < due - made <= timedelta(hours=1)
    project.story.wait(minutes=61)
    assert project.changes() == [("ns/a", "WARN")]
    project.story.wait(minutes=61)
    assert project.changes() == [("ns/a", "FAIL")]
    assert freshness.next_due(project.story.state) is None
    project.make("a")
    assert freshness.next_due(project.story.state) == project.story.state.ts
    assert project.changes() == [("ns/a", "PASS")]
    changes = project.story.state.freshness_changes.values()
    assert [row.state.value for row in changes] == ["PASS", "WARN", "FAIL", "PASS"]


def test_a_change_names_when_it_came_to_be_so() -> None:
    project = Project(a=WINDOW)
    project.make("a")
    project.changes()
    made = project.story.state.assets.rows["ns/a"].last_materialization_at
    assert made is not None
    project.story.wait(days=3)
    project.changes()
    row = project.story.state.freshness.rows["ns/a"]
    assert row.state is FreshnessState.FAIL
    assert row.changed_at == made + timedelta(hours=2, microseconds=1)


def test_made_again_and_again_it_is_looked_at_when_due_only() -> None:
    project = Project(a=WINDOW)
    for _ in range(20):
        project.make("a")
        project.changes()
        project.story.wait(minutes=1)
    assert len(project.story.state.index.freshness_due) == 1
    project.story.wait(minutes=50)
    assert project.changes() == []
    project.story.wait(minutes=20)
    assert project.changes() == [("ns/a", "WARN")]


def test_another_policy_is_judged_at_once_and_none_makes_it_unknown() -> None:
    project = Project(a=WINDOW)
    project.make("a")
    project.changes()
    project.story.wait(minutes=10)
    project.deploy(a=policy_text(MaxAge(fail_ms=60_000)))
    assert project.changes() == [("ns/a", "FAIL")]
    project.deploy(a=WINDOW)
    assert project.changes() == [("ns/a", "PASS")]
    project.deploy(a=policy_text(MaxAge(fail_ms=15 * 60_000)))
    assert project.changes() == []
    project.story.wait(minutes=6)
    assert project.changes() == [("ns/a", "FAIL")]
    project.deploy(a="")
    assert project.changes() == [("ns/a", "UNKNOWN")]
    project.deploy(a=WINDOW)
    assert project.changes() == [("ns/a", "PASS")]
    project.deploy()
    assert project.changes() == [("ns/a", "UNKNOWN")]
    project.story.wait(hours=9)
    assert project.changes() == []


def test_a_policy_that_cannot_be_read_says_nothing() -> None:
    project = Project(a="{}")
    project.make("a")
    assert project.changes() == []


def test_what_was_refused_is_proposed_again_with_what_is_true_then() -> None:
    project = Project(a=WINDOW)
    project.make("a")
    first = freshness.reconcile(project.story.state, project.story.now)
    project.make("a")
    assert not project.story.tell(*first[0].events).applied
    assert project.changes() == [("ns/a", "PASS")]


def test_a_round_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "MAX_PER_ROUND", 2)
    project = Project(**dict.fromkeys("abc", WINDOW))
    for name in "abc":
        project.make(name)
    story = project.story
    assert len(freshness.reconcile(story.state, story.now)) == 2
    for expected in (2, 1, 0):
        proposed = freshness.reconcile(story.state, story.now)
        assert len(proposed) == expected
        for proposal in proposed:
            story.tell(*proposal.events)


def test_a_leader_that_starts_judges_what_it_loaded() -> None:
    project = Project(a=WINDOW)
    project.make("a")
    project.changes()
    loaded = State("acme", "prod")
    loaded.ts = project.story.state.ts
    for name, table in project.story.state.tables.items():
        loaded.hydrate(name, table.values())
    assert freshness.reconcile(loaded, project.story.now) == []
    later = project.story.now + timedelta(hours=3)
    proposed = [event for p in freshness.reconcile(loaded, later) for event in p.events]
    assert [e.state for e in proposed if isinstance(e, FreshnessChanged)] == [FreshnessState.FAIL]


def test_an_asset_that_was_taken_back_is_not_judged() -> None:
    project = Project()
    state = project.story.state
    mark = len(state.journal)
    row = Project(a=WINDOW).story.state.assets.rows["ns/a"]
    state.assets.put("ns/a", row)
    state.rollback(mark)
    assert freshness.reconcile(state, project.story.now) == []
