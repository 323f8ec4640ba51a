"""The layout of a workspace, written out: other programs depend on it."""

import pytest

from servo.errors import Invalid
from servo.ledger.paths import Paths, seq_of, version_of

PATHS = Paths("acme", "prod")


def test_the_layout_is_the_documented_one() -> None:
    seven = "00000000000000000007"
    assert {
        "ledger": PATHS.ledger_entry(7),
        "archive": PATHS.archive_segment(1, 7),
        "inbox": PATHS.inbox_item("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        "manifest": PATHS.manifest(7),
        "hint": PATHS.manifest_hint,
        "state": PATHS.state_file("tasks", "a0-7-ab.parquet"),
        "plan": PATHS.plan("ab12"),
        "lease": PATHS.lease,
        "pin": PATHS.pin("p1"),
    } == {
        "ledger": f"acme/prod/ledger/orchestration/{seven}.json",
        "archive": f"acme/prod/ledger-archive/orchestration/{1:020d}-{seven}.ndjson.zst",
        "inbox": "acme/prod/inbox/orchestration/01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
        "manifest": f"acme/prod/manifests/orchestration/{seven}.json",
        "hint": "acme/prod/manifests/orchestration.manifest.json",
        "state": "acme/prod/state/orchestration/tasks/a0-7-ab.parquet",
        "plan": "acme/prod/plans/ab12",
        "lease": "acme/prod/leases/orchestration.json",
        "pin": "acme/prod/pins/orchestration/p1.json",
    }


def test_keys_lie_under_their_prefixes() -> None:
    assert PATHS.ledger_entry(1).startswith(PATHS.ledger_prefix)
    assert PATHS.inbox_item("x").startswith(PATHS.inbox_prefix)
    assert PATHS.manifest(1).startswith(PATHS.manifest_prefix)
    assert PATHS.state_file("t", "x").startswith(PATHS.state_prefix)
    assert PATHS.plan("ab").startswith(PATHS.plans_prefix)
    assert PATHS.archive_segment(1, 2).startswith(PATHS.archive_prefix)
    assert PATHS.pin("x").startswith(PATHS.pins_prefix)
    assert PATHS.assets_prefix == "acme/prod/assets/"


def test_the_hint_is_not_listed_among_the_manifests() -> None:
    assert not PATHS.manifest_hint.startswith(PATHS.manifest_prefix)


@pytest.mark.parametrize("number", [0, 1, 9, 10, 10**19])
def test_numbers_come_back_from_keys(number: int) -> None:
    assert seq_of(PATHS.ledger_entry(number)) == number
    assert version_of(PATHS.manifest(number)) == number


def test_the_order_of_keys_is_the_order_of_numbers() -> None:
    numbers = [9, 10, 99, 100, 10**18]
    keys = [PATHS.ledger_entry(number) for number in numbers]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    "key", ["", "7.json", f"{7:020d}", f"{7:020d}.json.tmp", f"{7:019d}x.json", "hint"]
)
def test_a_key_without_a_number_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="is not the key of a manifest"):
        _ = version_of(key)


@pytest.mark.parametrize("number", [-1, 10**20])
def test_a_number_that_does_not_fit_is_refused(number: int) -> None:
    with pytest.raises(Invalid, match="not a valid number in a key"):
        _ = PATHS.manifest(number)


@pytest.mark.parametrize("name", ["../x", "a/b", "", "A B", "x" * 64, "a\x00"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        _ = Paths(name, "prod")
    with pytest.raises(Invalid):
        _ = Paths("acme", name)


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a b", "x" * 201])
def test_a_file_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        _ = PATHS.plan(name)
    with pytest.raises(Invalid):
        _ = PATHS.state_file("tasks", name)
