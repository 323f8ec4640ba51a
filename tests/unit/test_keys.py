"""Asset keys and task keys."""

from datetime import date
from itertools import pairwise, permutations
from typing import Any

import msgspec
import pytest

from servo.core.keys import MAX_KEY_BYTES, AssetKey, TaskOperation, task_key_text
from servo.core.partitions import PartitionKey
from servo.errors import Invalid

EVENTS = AssetKey(["raw", "events"])


LESS, EQUAL, GREATER = (
    (True, True, False, False),
    (False, True, False, True),
    (False, False, True, True),
)


def relations(left: Any, right: Any) -> tuple[bool, ...]:
    return left < right, left <= right, left > right, left >= right


def day(number: int) -> PartitionKey:
    return PartitionKey.single(date(2025, 1, number), "day")


def test_an_asset_key_is_shown_with_dots_and_stored_with_slashes() -> None:
    key = AssetKey(["lake", "raw", "events"])
    assert key.display() == str(key) == "lake.raw.events"
    assert key.canonical() == "lake/raw/events"
    assert (key.namespace, key.name) == (("lake", "raw"), "events")


def test_lists_tuples_and_single_names_make_the_same_keys() -> None:
    assert AssetKey(["a", "b"]) == AssetKey(("a", "b"))
    assert AssetKey("a") == AssetKey(["a"])
    assert hash(AssetKey(["a", "b"])) == hash(AssetKey(("a", "b")))


@pytest.mark.parametrize("text", ["raw.events", "raw/events"])
def test_both_forms_are_understood(text: str) -> None:
    assert AssetKey.parse(text) == EVENTS


def test_a_dot_inside_a_part_is_kept_apart_from_the_dots_between_parts() -> None:
    key = AssetKey(["raw", "v1.2"])
    assert key.display() == key.canonical() == "raw/v1.2"
    assert AssetKey.parse(key.display()) == key


def test_a_single_part_with_a_dot_is_refused_because_it_reads_like_two() -> None:
    with pytest.raises(Invalid, match=r"write AssetKey\(\['raw', 'events'\]\)"):
        AssetKey("raw.events")


@pytest.mark.parametrize(
    "part",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "a%2e",
        "50%",
        "a[0]",
        "a]",
        "a:b",
        "a,b",
        "a=b",
        " a",
        "a ",
        "\u00a0a",
        "a\x00",
        "a\nb",
        "a\u202eb",
        "cafe\u0301",
        "\ud800",
        "é" * 128,
    ],
)
def test_a_part_that_has_a_meaning_elsewhere_is_refused(part: str) -> None:
    with pytest.raises(Invalid, match="asset key part"):
        AssetKey(["raw", part])


@pytest.mark.parametrize("part", ["événements", "数据", "a b", "a-b_c", "UPPER", "a" * 255])
def test_a_part_may_be_any_ordinary_unicode(part: str) -> None:
    assert AssetKey(["raw", part]).name == part


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a//b", "/a", "a/"])
def test_a_text_with_an_empty_part_is_no_key(text: str) -> None:
    with pytest.raises(Invalid):
        AssetKey.parse(text)


def test_a_key_has_parts_and_is_not_endless() -> None:
    with pytest.raises(Invalid, match="no parts"):
        AssetKey([])
    with pytest.raises(Invalid, match="longer than 1024 bytes"):
        AssetKey(["a" * 200] * 6)
    assert len(AssetKey(["a" * 204] * 5).canonical()) == MAX_KEY_BYTES


def test_a_decoded_key_is_checked_like_any_other() -> None:
    assert msgspec.json.decode(b'{"parts":["raw","events"]}', type=AssetKey) == EVENTS
    with pytest.raises(Invalid):
        msgspec.json.decode(b'{"parts":["raw",".."]}', type=AssetKey)


def test_asset_keys_sort_part_by_part() -> None:
    keys = [AssetKey(["a"]), AssetKey(["a", "z"]), AssetKey(["a-b"]), AssetKey(["b", "a"])]
    assert all(sorted(shuffled) == keys for shuffled in permutations(keys))
    assert [relations(*pair) for pair in pairwise(keys)] == [LESS] * 3
    assert relations(keys[3], keys[0]) == GREATER
    assert relations(keys[2], keys[2]) == EQUAL


def test_a_task_key_names_asset_partition_and_operation() -> None:
    asset = EVENTS.canonical()
    assert task_key_text(asset, None, TaskOperation.MATERIALIZE) == "raw/events:materialize"
    of_day = task_key_text(asset, day(15).canonical(), TaskOperation.CHECK)
    assert of_day == "raw/events[day=d:2025-01-15]:check"


def test_a_key_is_a_path_that_can_be_added_to_and_taken_apart() -> None:
    key = AssetKey(["raw", "events"])
    assert ["lake", *key.path] == ["lake", "raw", "events"]
    assert AssetKey.from_user_string(key.to_user_string()) == key
    assert key.to_python_identifier() == "raw__events"
    assert key.to_python_identifier("day") == "raw__events__day"
    assert key.has_prefix(["raw"])
    assert not key.has_prefix(["events"])
    assert key.with_prefix("lake") == key.with_prefix(["lake"])
    assert key.with_prefix("lake").parts == ("lake", "raw", "events")
