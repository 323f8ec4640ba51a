"""Plans: normal form, fingerprint, chunks."""

from collections.abc import Sequence
from datetime import date
from itertools import permutations
from typing import Any

import msgspec
import pytest

from servo.core.ids import Digest, TaskKeyStr, TenantId, WorkspaceId
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.partitions import PartitionKey
from servo.core.plan import (
    Chunk,
    Plan,
    TaskSpec,
    chunk_bytes,
    chunk_digest,
    fingerprint,
    normalize,
    parse_chunk,
    split,
)
from servo.core.retry import RetryRules
from servo.errors import Corrupt, Invalid

ACME, PROD = TenantId("acme"), WorkspaceId("prod")
DAY = PartitionKey.single(date(2025, 1, 15), "day")


def key(name: str) -> TaskKeyStr:
    return TaskKeyStr(f"raw/{name}:materialize")


def task(name: str, upstream: Sequence[str] = (), **fields: Any) -> TaskSpec:
    parents = tuple(key(parent) for parent in upstream)
    return TaskSpec(task_key=key(name), asset_key=f"raw/{name}", upstream=parents, **fields)


def prints(*plans: Plan) -> list[str]:
    return [fingerprint(ACME, PROD, plan) for plan in plans]


def test_the_same_tasks_in_any_order_are_the_same_plan() -> None:
    specs = [task("c", ["a", "b"]), task("a"), task("b", ["a"])]
    plans = [normalize(shuffled) for shuffled in permutations(specs)]
    assert [spec.task_key for spec in plans[0].tasks] == [key("a"), key("b"), key("c")]
    assert all(plan == plans[0] for plan in plans)
    assert len({*prints(*plans)}) == 1


def test_dependencies_are_sorted_and_counted_once() -> None:
    plan = normalize([task("c", ["b", "a", "b"]), task("b"), task("a")])
    assert plan.tasks[2].upstream == (key("a"), key("b"))


def test_a_task_comes_after_its_dependencies_even_against_the_alphabet() -> None:
    plan = normalize([task("a", ["z"]), task("m"), task("z", ["m"])])
    assert [spec.asset_key for spec in plan.tasks] == ["raw/m", "raw/z", "raw/a"]


def test_no_tasks_are_a_plan_too() -> None:
    plan = normalize([])
    assert plan == Plan()
    assert list(split(plan, 10)) == []
    assert fingerprint(ACME, PROD, plan).startswith("v1:sha256:")


def test_a_cycle_is_refused_with_its_path() -> None:
    path = "raw/a:materialize → raw/b:materialize → raw/a:materialize"
    with pytest.raises(Invalid, match=path):
        normalize([task("a", ["b"]), task("b", ["a"])])


def test_an_unknown_dependency_is_named() -> None:
    with pytest.raises(Invalid, match="raw/a:materialize depends on raw/ghost:materialize"):
        normalize([task("a", ["ghost"])])


def test_a_task_that_is_planned_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="raw/a:materialize is planned twice"):
        normalize([task("a"), task("a", priority=1)])


def test_a_key_that_does_not_belong_to_its_task_is_refused() -> None:
    for fields in ({"partition": DAY.canonical()}, {"operation": TaskOperation.CHECK}):
        with pytest.raises(Invalid, match="does not match its asset, partition and operation"):
            normalize([task("a", **fields)])


def test_the_key_of_a_partitioned_check_is_what_task_key_text_makes() -> None:
    asset = AssetKey(["raw", "a"])
    made = task_key_text(asset.canonical(), DAY.canonical(), TaskOperation.CHECK)
    spec = TaskSpec(
        task_key=made,
        asset_key=asset.canonical(),
        partition=DAY.canonical(),
        operation=TaskOperation.CHECK,
    )
    assert normalize([spec]).tasks == (spec,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("heartbeat_timeout_ms", 4_999),
        ("dispatch_ack_timeout_ms", 0),
        ("timeout_ms", -1),
        ("memory_bytes", -1),
        ("cpu_millicores", -1),
    ],
)
def test_a_limit_below_its_floor_is_refused(field: str, value: int) -> None:
    spec = msgspec.structs.replace(task("a"), **{field: value})
    with pytest.raises(Invalid, match=f"raw/a:materialize: {field} is {value}; use at least"):
        normalize([spec])


def test_a_limit_at_its_floor_is_accepted() -> None:
    assert normalize([task("a", heartbeat_timeout_ms=5_000, dispatch_ack_timeout_ms=1)]).tasks


def test_a_retry_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(Invalid, match="max_attempts is 0"):
        normalize([task("a", retry=RetryRules(max_attempts=0))])


def test_a_plan_of_more_than_a_million_tasks_is_refused() -> None:
    with pytest.raises(Invalid, match="a plan has 1000001 tasks; split the run"):
        normalize([task("a")] * 1_000_001)


def test_the_attempts_of_a_task_are_those_of_its_retry_policy() -> None:
    assert task("a").max_attempts == 3
    assert task("a", retry=RetryRules(max_attempts=7)).max_attempts == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 1),
        ("pool", "warehouse"),
        ("queue", "gpu"),
        ("retry", RetryRules(max_attempts=5)),
        ("timeout_ms", 1),
        ("heartbeat_timeout_ms", 5_000),
        ("dispatch_ack_timeout_ms", 1),
        ("memory_bytes", 1),
        ("cpu_millicores", 1),
        ("code_version", "v2"),
        ("config_digest", "00"),
        ("tags", {"team": "data"}),
    ],
)
def test_everything_that_has_a_meaning_is_in_the_fingerprint(field: str, value: object) -> None:
    changed = msgspec.structs.replace(task("a"), **{field: value})
    before, after = prints(normalize([task("a")]), normalize([changed]))
    assert before != after


def test_identity_and_dependencies_are_in_the_fingerprint() -> None:
    found = prints(
        normalize([task("a"), task("b")]),
        normalize([task("a"), task("b", ["a"])]),
        normalize([task("a"), task("c")]),
        normalize([task("a")]),
        normalize([]),
    )
    assert len({*found}) == len(found)


def test_a_plan_has_another_fingerprint_in_another_tenant_or_workspace() -> None:
    plan = normalize([task("a")])
    found = [
        fingerprint(ACME, PROD, plan),
        fingerprint(TenantId("other"), PROD, plan),
        fingerprint(ACME, WorkspaceId("dev"), plan),
    ]
    assert len({*found}) == 3


def test_a_fraction_cannot_hide_in_a_plan() -> None:
    plan = normalize([task("a", priority=0.5)])
    with pytest.raises(Invalid, match="float"):
        fingerprint(ACME, PROD, plan)
    with pytest.raises(Invalid, match=r"float at \$\.tasks\[0\]\.priority"):
        chunk_bytes(Chunk(tasks=plan.tasks))


def test_a_plan_is_split_in_order_into_chunks_of_bounded_size() -> None:
    plan = normalize([task(f"t{number}") for number in range(5)])
    chunks = list(split(plan, 2))
    assert [len(chunk.tasks) for chunk in chunks] == [2, 2, 1]
    assert tuple(spec for chunk in chunks for spec in chunk.tasks) == plan.tasks
    assert list(split(plan, 5)) == [Chunk(tasks=plan.tasks)]


def test_a_chunk_of_no_tasks_is_refused() -> None:
    with pytest.raises(Invalid, match="at least 1"):
        list(split(Plan(), 0))


def test_a_chunk_comes_back_from_its_bytes() -> None:
    chunk = Chunk(
        tasks=(task("a"), task("b", ["a"], retry=RetryRules(delay_ms=1), tags={"x": "y"}))
    )
    data = chunk_bytes(chunk)
    assert parse_chunk(data, chunk_digest(data)) == chunk
    assert chunk_bytes(parse_chunk(data, chunk_digest(data))) == data


def test_a_task_travels_as_what_differs_from_the_default() -> None:
    assert chunk_bytes(Chunk(tasks=(task("a", retry=RetryRules(delay_ms=int("30000"))),))) == (
        b'{"tasks":[{"asset_key":"raw/a","task_key":"raw/a:materialize"}],"version":1}'
    )


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json"])
def test_bytes_that_do_not_match_the_digest_are_never_parsed(damage: bytes) -> None:
    digest = chunk_digest(chunk_bytes(Chunk(tasks=())))
    with pytest.raises(Corrupt, match="does not match its hash"):
        parse_chunk(damage, digest)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="another shape"),
        pytest.param(b'{"tasks":[{}]}', id="a task without a key"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 100_000, id="a depth bomb"),
    ],
)
def test_matching_bytes_that_are_no_chunk_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="report this as a bug"):
        parse_chunk(data, chunk_digest(data))


def test_a_chunk_of_a_later_version_asks_for_a_newer_servo() -> None:
    data = msgspec.json.encode({"version": 2, "tasks": []})
    with pytest.raises(Corrupt, match="has version 2; upgrade Servo"):
        parse_chunk(data, chunk_digest(data))


def test_a_digest_is_the_hash_of_the_bytes() -> None:
    expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert chunk_digest(b"") == Digest(expected)
