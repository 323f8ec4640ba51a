"""Laws of identity: one value, one text; one text, one value; no order but the key's."""

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from servo.core.canonical import canonical_bytes, canonical_str, sha256_hex
from servo.core.graph import topological_order
from servo.core.ids import (
    RunId,
    TaskKeyStr,
    TenantId,
    WorkspaceId,
    attempt_id,
    check_text,
    jitter_fraction,
    timer_name,
    ulid,
)
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.partitions import PartitionKey, Scalar
from servo.core.plan import (
    Chunk,
    TaskSpec,
    chunk_bytes,
    chunk_digest,
    fingerprint,
    normalize,
    parse_chunk,
    split,
)
from servo.core.retry import (
    MAX_DELAY,
    BackoffCurve,
    FailedAttempt,
    FailureKind,
    GiveUp,
    JitterSpread,
    Retry,
    RetryRules,
    Spent,
    delay_after,
    retry_or_give_up,
)
from servo.errors import Corrupt, Invalid

INT64 = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
WITH_FLOATS = st.recursive(
    LEAVES | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def has_float(value: object) -> bool:
    match value:
        case float():
            return True
        case list():
            return any(has_float(item) for item in cast("list[object]", value))
        case dict():
            return any(has_float(item) for item in cast("dict[str, object]", value).values())
        case _:
            return False


def reversed_keys(value: object) -> object:
    match value:
        case list():
            return [reversed_keys(item) for item in cast("list[object]", value)]
        case dict():
            items = list(cast("dict[str, object]", value).items())
            return {key: reversed_keys(item) for key, item in items[::-1]}
        case _:
            return value


# --- canonical JSON -------------------------------------------------------------------------------


@given(JSON)
def test_canonical_json_is_what_a_strict_plain_encoder_writes(value: object) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_str(value) == plain


@given(JSON)
def test_canonical_json_says_everything_and_the_order_of_keys_says_nothing(value: object) -> None:
    data = canonical_bytes(value)
    assert json.loads(data) == value
    assert canonical_bytes(json.loads(data)) == canonical_bytes(reversed_keys(value)) == data


@given(st.lists(st.text(), unique=True))
def test_keys_come_in_the_order_of_their_bytes(keys: list[str]) -> None:
    found = list(json.loads(canonical_bytes(dict.fromkeys(keys, 0))))
    assert found == sorted(keys, key=str.encode)


@given(WITH_FLOATS)
@example([1, {"a": -0.0}])
def test_a_value_is_refused_if_and_only_if_there_is_a_float_in_it(value: object) -> None:
    if has_float(value):
        with pytest.raises(Invalid, match=r"float at \$"):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value)


# --- derived ids ----------------------------------------------------------------------------------


def slow_id(prefix: str, *parts: str | int) -> str:
    digest = hashlib.sha256(canonical_bytes(list(parts))).digest()
    return prefix + base64.b32encode(digest[:16]).decode().lower().rstrip("=")


@given(st.text(), st.text(), st.integers(0, 2**63 - 1))
def test_the_fast_way_to_an_id_is_the_slow_definition(run: str, task: str, attempt: int) -> None:
    key = RunId(run), TaskKeyStr(task), attempt
    attempt_hash = sha256_hex(["attempt", run, task, attempt])
    assert attempt_id(*key) == f"att_{attempt_hash[:32]}"
    jitter = int(sha256_hex(["jitter", run, task, attempt])[:16], 16)
    assert jitter_fraction(*key) == jitter % 10_000
    timer = timer_name(TenantId("t"), WorkspaceId("w"), run, task, attempt)
    assert timer == slow_id("t_", "timer", "t", "w", run, task, attempt)


@given(st.text(st.characters(codec=None)) | st.text("./%2e\\a:", max_size=6))
def test_accepted_text_is_normal_printable_and_goes_nowhere(text: str) -> None:
    try:
        _ = check_text(text, "run key")
    except Invalid:
        return
    assert unicodedata.normalize("NFC", text) == text
    assert not {"..", "."}.intersection(text.split("/"))
    assert not {"Cc", "Cs", "Zl", "Zp"}.intersection(unicodedata.category(char) for char in text)
    assert "\\" not in text
    assert "%2e" not in text.lower()


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds are naive
    st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds are naive
    st.binary(min_size=10, max_size=10),
)
def test_ulids_sort_by_their_millisecond(one: datetime, other: datetime, entropy: bytes) -> None:
    early, late = sorted([one, other])
    assume(late - early >= timedelta(milliseconds=1))
    assert ulid(early, b"\xff" * 10) < ulid(late, bytes(10))
    assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", ulid(one, entropy))


# --- keys and partitions --------------------------------------------------------------------------


def normal(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=1, max_size=size).map(
        lambda text: unicodedata.normalize("NFC", text)
    )


PARTS = normal("abz.-_ é数", 4).filter(
    lambda part: part == part.strip() and part not in (".", "..")
)
ASSET_KEYS = (
    st.lists(PARTS, min_size=1, max_size=3)
    .filter(lambda parts: len(parts) > 1 or "." not in parts[0])
    .map(AssetKey)
)
STRINGS = normal("ab=,:|[]/ é数\U0001f389", 6).filter(
    lambda text: not {".", ".."}.intersection(text.split("/"))
)
SCALARS: st.SearchStrategy[Scalar] = (
    st.none()
    | st.booleans()
    | INT64
    | st.dates()
    | STRINGS
    | st.datetimes(timezones=st.just(UTC))
    | st.datetimes(datetime(2, 1, 1), timezones=st.just(ZoneInfo("Asia/Kathmandu")))  # noqa: DTZ001 - bounds are naive
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,3}", fullmatch=True)
VALUES = st.dictionaries(NAMES, SCALARS, min_size=1, max_size=3)
PARTITIONS = VALUES.map(PartitionKey.of)
TASKS = st.tuples(ASSET_KEYS, st.none() | PARTITIONS, st.sampled_from(TaskOperation))


def typed(values: Mapping[str, Scalar]) -> dict[str, tuple[type, Scalar]]:
    return {name: (type(value), value) for name, value in values.items()}


@given(ASSET_KEYS)
def test_an_asset_key_comes_back_from_both_of_its_texts(key: AssetKey) -> None:
    assert AssetKey.parse(key.display()) == AssetKey.parse(key.canonical()) == key


@given(VALUES)
def test_a_partition_key_comes_back_from_its_text_with_its_types(values: dict[str, Scalar]) -> None:
    key = PartitionKey.of(values)
    assert PartitionKey.parse(key.canonical()) == key
    assert typed(key.values()) == typed(values)


@given(PARTITIONS)
def test_a_partition_key_comes_back_from_what_people_see_or_is_called_ambiguous(
    key: PartitionKey,
) -> None:
    shown, kinds = key.display(), key.dimensions()
    marks = [len(re.findall(rf"(?:^|,){name}=", shown)) for name in kinds]
    if len(kinds) == 1 or marks == [1] * len(kinds):
        assert PartitionKey.from_display(shown, kinds) == key
    else:
        with pytest.raises(Invalid, match="does not contain each of"):
            PartitionKey.from_display(shown, kinds)


@given(VALUES, VALUES)
def test_only_equal_values_of_equal_type_are_one_partition(
    one: dict[str, Scalar], other: dict[str, Scalar]
) -> None:
    assert (PartitionKey.of(one) == PartitionKey.of(other)) is (typed(one) == typed(other))


@given(PARTITIONS, st.data())
def test_a_text_is_parsed_only_if_it_is_canonical(key: PartitionKey, data: st.DataObject) -> None:
    text = key.canonical()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 2)))
    mutated = text[:start] + data.draw(st.text("abns=:,0-1Z_ .T", max_size=2)) + text[end:]
    try:
        parsed = PartitionKey.parse(mutated)
    except Invalid:
        assert mutated != text
    else:
        assert parsed.canonical() == mutated


@given(st.lists(TASKS, max_size=6))
def test_task_keys_are_equal_if_and_only_if_what_they_name_is(
    tasks: list[tuple[AssetKey, PartitionKey | None, TaskOperation]],
) -> None:
    texts = {
        task_key_text(asset.canonical(), partition and partition.canonical(), operation)
        for asset, partition, operation in tasks
    }
    assert len(texts) == len({*tasks})


# --- graphs and plans -----------------------------------------------------------------------------

EDGES = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4), max_size=10)


def slow_order(upstream: Mapping[int, Sequence[int]]) -> list[int] | None:
    left = dict(upstream)
    order: list[int] = []
    while left:
        ready = [node for node, parents in left.items() if not any(p in left for p in parents)]
        if not ready:
            return None
        order.append(min(ready))
        del left[order[-1]]
    return order


@given(EDGES, st.randoms(use_true_random=False))
def test_a_graph_has_the_one_order_of_its_definition_or_a_real_cycle(
    edges: dict[int, list[int]], random: Any
) -> None:
    upstream = {node: edges.get(node, []) for node in range(10)}
    nodes = list(upstream)
    random.shuffle(nodes)
    expected = slow_order(upstream)
    if expected is not None:
        assert topological_order(nodes, upstream, key=int) == expected
        return
    with pytest.raises(Invalid) as caught:
        topological_order(nodes, upstream, key=int)
    path = [int(name) for name in caught.value.message.rpartition(": ")[2].split(" → ")]
    assert path[0] == path[-1] == min(path)
    assert all(before in upstream[after] for before, after in pairwise(path))


POLICIES = st.builds(
    RetryRules,
    max_attempts=st.sampled_from([1, 3, 999]),
    delay_ms=st.sampled_from([0, 30_000, 30_001]),
    cap_ms=st.sampled_from([900_000, 1]),
    backoff=st.sampled_from(BackoffCurve),
    jitter=st.sampled_from(JitterSpread),
    retry_on=st.lists(st.text(max_size=2), max_size=2).map(tuple),
)


@st.composite
def specs(draw: st.DrawFn) -> list[TaskSpec]:
    names = draw(st.lists(st.sampled_from("abcdefghé"), unique=True, max_size=8))
    keys = [TaskKeyStr(f"ns/{name}:materialize") for name in names]
    return [
        TaskSpec(
            task_key=key,
            asset_key=f"ns/{name}",
            # Only on tasks named before it, so there is no cycle.
            upstream=tuple(draw(st.lists(st.sampled_from(keys[:index]), max_size=4)))
            if index
            else (),
            priority=draw(INT64),
            retry=draw(POLICIES),
            heartbeat_timeout_ms=draw(st.sampled_from([5_000, 300_000])),
            tags=draw(st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2)),
        )
        for index, (name, key) in enumerate(zip(names, keys, strict=True))
    ]


@given(specs(), st.randoms(use_true_random=False), st.integers(1, 9))
def test_a_plan_is_the_same_however_it_was_put_together(
    tasks: list[TaskSpec], random: Any, size: int
) -> None:
    plan = normalize(tasks)
    # Through JSON and back, so that equal values are no longer the same objects.
    again = msgspec.json.decode(msgspec.json.encode(tasks), type=list[TaskSpec])
    random.shuffle(again)
    other = normalize(again)
    assert other == plan
    tenant, workspace = TenantId("t"), WorkspaceId("w")
    assert fingerprint(tenant, workspace, other) == fingerprint(tenant, workspace, plan)
    stored = [chunk_bytes(chunk) for chunk in split(plan, size)]
    assert [chunk_bytes(chunk) for chunk in split(other, size)] == stored
    read = [parse_chunk(data, chunk_digest(data)) for data in stored]
    assert tuple(task for chunk in read for task in chunk.tasks) == plan.tasks
    assert normalize(plan.tasks) == plan


@given(specs(), st.data())
def test_a_damaged_chunk_is_found_before_it_is_read(
    tasks: list[TaskSpec], data: st.DataObject
) -> None:
    stored = chunk_bytes(Chunk(tasks=tuple(tasks)))
    index = data.draw(st.integers(0, len(stored) - 1))
    flipped = stored[index] ^ data.draw(st.integers(1, 255))
    damaged = stored[:index] + bytes([flipped]) + stored[index + 1 :]
    with pytest.raises(Corrupt, match="does not match its hash"):
        parse_chunk(damaged, chunk_digest(stored))


# --- retry ----------------------------------------------------------------------------------------

ANY_POLICY = st.builds(
    RetryRules,
    max_attempts=INT64,
    max_infra_retries=INT64,
    delay_ms=INT64,
    cap_ms=INT64,
    multiplier_percent=INT64,
    backoff=st.sampled_from(BackoffCurve),
    jitter=st.sampled_from(JitterSpread),
)
FAILURES = st.builds(
    FailedAttempt,
    kind=st.sampled_from(FailureKind),
    error_types=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    retriable=st.none() | st.booleans(),
    retry_after=st.none() | st.timedeltas(),
    max_attempts=st.none() | INT64,
)


@given(ANY_POLICY, FAILURES, st.builds(Spent, user_failures=INT64, infra_losses=INT64), INT64)
def test_every_failure_under_every_policy_has_one_bounded_answer(
    policy: RetryRules, failure: FailedAttempt, spent: Spent, jitter: int
) -> None:
    match retry_or_give_up(policy, failure, spent, jitter=jitter % 10_000):
        case Retry(after):
            assert timedelta(0) <= after <= MAX_DELAY
        case GiveUp():
            pass


@given(
    POLICIES.map(lambda policy: msgspec.structs.replace(policy, jitter=JitterSpread.NONE)),
    st.integers(1, 2000),
)
def test_without_jitter_delays_never_shrink_and_never_pass_the_cap(
    policy: RetryRules, failures: int
) -> None:
    now, then = (delay_after(policy, count, jitter=0) for count in (failures, failures + 1))
    assert now <= then <= timedelta(milliseconds=policy.cap_ms)
