"""Outputs that are no longer kept, and the rules that say so."""

from typing import Any

import pytest

from servo.core.events.assets import (
    AssetDefinition,
    AssetWiped,
    DefinitionsDeployed,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.envelope import Status
from servo.core.events.tasks import CommittedOutput, Gate
from servo.core.fold.apply import needs
from servo.core.retention import MOST_AGE_MS
from servo.core.state.rows.assets import MaterializationRow
from servo.testing.builders import Story, dump

DAY = "day=d:2026-01-01"


def made(story: Story, name: str, **fields: Any) -> None:
    """One more output of ns/a."""
    partition = fields.pop("partition", None)
    story.plan({"a": ()}, f"run-{name}", partition=partition)
    story.start("a", f"run-{name}", f"exec-{name}")
    values: dict[str, Any] = {"uri": f"acme/prod/assets/ns/a/{name}/", **fields}
    output = CommittedOutput(materialization_id=name, **values)
    story.finish("a", run_id=f"run-{name}", output=output)


def output(story: Story, name: str) -> MaterializationRow:
    return story.state.materializations.rows[name]


def expire(*names: str) -> OutputsExpired:
    return OutputsExpired(materialization_ids=names)


def test_what_expired_says_when_and_nothing_else_changes() -> None:
    story = Story()
    for name in ("m1", "m2", "m3"):
        made(story, name)
    before = dump(story.state)["assets"]
    story.wait(days=3)
    assert story.tell(expire("m1", "m2")).status is Status.APPLIED
    assert output(story, "m1").expired_at == story.state.ts == output(story, "m2").expired_at
    assert output(story, "m1").row_version == story.state.seq
    assert output(story, "m3").expired_at is None
    assert dump(story.state)["assets"] == before


def test_what_has_expired_does_not_expire_again() -> None:
    story = Story()
    for name in ("m1", "m2", "m3"):
        made(story, name)
    story.tell(expire("m1"))
    then = output(story, "m1")
    story.wait(days=1)
    answer = story.tell(expire("m1"))
    assert (answer.status, answer.repeated) == (Status.APPLIED, True)
    story.tell(expire("m2", "m1", "m2"))
    assert output(story, "m1") == then
    assert output(story, "m2").expired_at == story.state.ts


def test_nothing_expires_with_what_is_the_latest() -> None:
    story = Story()
    for name in ("m1", "m2"):
        made(story, name)
    before = dump(story.state)
    answer = story.tell(expire("m1", "m2"))
    assert (answer.status, answer.reason.partition(":")[0]) == (Status.CONFLICT, "latest_output")
    assert dump(story.state) == before


def test_the_latest_of_every_partition_stays() -> None:
    story = Story()
    made(story, "m1", partition=DAY)
    made(story, "m2", partition=DAY)
    made(story, "m3", partition="day=d:2026-01-02")
    assert story.tell(expire("m2")).reason.startswith("latest_output")
    assert story.tell(expire("m3")).reason.startswith("latest_output")
    assert story.tell(expire("m1")).applied


def test_what_was_wiped_may_expire() -> None:
    story = Story()
    made(story, "m1")
    story.tell(AssetWiped(asset_key="ns/a"))
    assert story.tell(expire("m1")).applied


def test_what_waits_in_quarantine_does_not_expire_until_somebody_decides() -> None:
    story = Story()
    made(story, "m1", gate=Gate.QUARANTINED)
    made(story, "m2")
    answer = story.tell(expire("m1"))
    assert (answer.status, answer.reason.partition(":")[0]) == (Status.CONFLICT, "in_quarantine")
    story.tell(QuarantineDecided(materialization_id="m1", approved=False))
    assert story.tell(expire("m1")).applied


@pytest.mark.parametrize(("name", "reason"), [("nobody", "unknown_materialization"), ("m1", "no_")])
def test_what_is_not_there_cannot_expire(name: str, reason: str) -> None:
    story = Story()
    made(story, "m1", uri="")
    made(story, "m2")
    answer = story.tell(expire(name))
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith(reason)


def test_rows_that_left_memory_are_asked_for() -> None:
    asked = needs(Story().batch(expire("m1", "m2")))
    assert asked == [("materializations", "m1"), ("materializations", "m2")]


# --- definitions ----------------------------------------------------------------------------------


def deployed(story: Story, **fields: Any) -> object:
    asset = AssetDefinition(asset_key="ns/a", **fields)
    answer = story.tell(DefinitionsDeployed(deployment_id=f"d{story.state.seq}", assets=(asset,)))
    return answer.reason or answer.status


def test_an_asset_keeps_what_its_deployment_says_of_retention() -> None:
    story = Story()
    deployed(story, retention_versions=3, retention_age_ms=60_000)
    row = story.state.assets.rows["ns/a"]
    assert (row.retention_versions, row.retention_age_ms) == (3, 60_000)
    deployed(story)
    row = story.state.assets.rows["ns/a"]
    assert (row.retention_versions, row.retention_age_ms) == (None, None)


@pytest.mark.parametrize("field", ["retention_versions", "retention_age_ms"])
@pytest.mark.parametrize("value", [0, -1, MOST_AGE_MS + 1])
def test_a_retention_out_of_bounds_is_refused(field: str, value: int) -> None:
    story = Story()
    assert (
        deployed(story, **{field: value})
        == f"out_of_range: {field} must be between 1 and {MOST_AGE_MS}"
    )
    assert "ns/a" not in story.state.assets
