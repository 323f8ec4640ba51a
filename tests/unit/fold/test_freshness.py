"""Rules of freshness: a change counts for what it saw, and once."""

from msgspec.structs import replace

from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.envelope import Status
from servo.core.events.freshness import FreshnessChanged
from servo.core.freshness import FreshnessState
from servo.core.state.rows.conditions import AssetFreshnessRow, FreshnessChangeRow
from servo.testing.builders import START, Story, dump

CHANGE = FreshnessChanged(asset_key="ns/a", state=FreshnessState.PASS, changed_at=START)


def made() -> tuple[Story, FreshnessChanged]:
    """A workspace with an asset that was just made, and a change that fits."""
    story = Story()
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(AssetDefinition(asset_key="ns/a"),)))
    story.plan({"a": ()}, "run_1")
    story.execute("a", run_id="run_1")
    seq = story.state.assets.rows["ns/a"].last_materialization_seq
    return story, replace(CHANGE, materialization_seq=seq)


def test_a_change_is_kept_with_its_history() -> None:
    story, change = made()
    assert story.tell(change).data == {"version": 1}
    first = story.state.ts
    story.wait(hours=1)
    fails = replace(change, state=FreshnessState.FAIL, expected_version=1, changed_at=story.now)
    assert story.tell(fails).data == {"version": 2}
    state = story.state
    assert list(state.freshness.values()) == [
        AssetFreshnessRow(
            asset_key="ns/a",
            state=FreshnessState.FAIL,
            version=2,
            changed_at=fails.changed_at,
            materialization_seq=change.materialization_seq,
            recorded_at=state.ts,
            row_version=state.seq,
        )
    ]
    told = list(state.freshness_changes.values())
    assert [(row.version, row.previous, row.state) for row in told] == [
        (1, FreshnessState.UNKNOWN, FreshnessState.PASS),
        (2, FreshnessState.PASS, FreshnessState.FAIL),
    ]
    assert isinstance(told[0], FreshnessChangeRow)
    assert told[0].recorded_at == first


def test_a_change_told_again_changes_nothing() -> None:
    story, change = made()
    story.tell(change)
    before = dump(story.state)
    again = story.tell(change)
    assert (again.applied, again.repeated, again.data) == (True, True, {"version": 1})
    assert dump(story.state) == before


def test_a_change_that_saw_something_else_is_refused() -> None:
    story, change = made()
    assert story.tell(replace(change, asset_key="ns/nobody")).reason.startswith("unknown_asset: ")
    late = story.tell(replace(change, expected_version=1))
    assert (late.status, late.reason) == (
        Status.CONFLICT,
        "freshness_version_changed: the version is now 0; evaluate again",
    )
    older = story.tell(replace(change, materialization_seq=1))
    assert (older.status, older.reason.partition(":")[0]) == (
        Status.CONFLICT,
        "materialization_changed",
    )
    naive = story.tell(replace(change, changed_at=START.replace(tzinfo=None)))
    assert naive.reason.startswith("invalid_instant")
    assert not story.state.freshness.rows
