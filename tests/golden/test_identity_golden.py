"""Identities that must never change: each expected value was computed without Servo's code."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from servo.core import ids
from servo.core.canonical import canonical_str, sha256_hex
from servo.core.ids import TenantId, WorkspaceId
from servo.core.partitions import PartitionKey, Scalar, ValueType
from servo.core.plan import (
    TaskSpec,
    chunk_bytes,
    chunk_digest,
    fingerprint,
    normalize,
    split,
)
from servo.errors import Invalid

HERE = Path(__file__).parent


class CanonicalVector(msgspec.Struct):
    name: str
    input: Any
    canonical: str
    sha256: str


class CanonicalFile(msgspec.Struct):
    vectors: list[CanonicalVector]
    refused: list[str]


class PartitionVector(msgspec.Struct):
    name: str
    values: dict[str, tuple[ValueType, str | int | bool | None]]
    canonical: str
    display: str


class PartitionFile(msgspec.Struct):
    vectors: list[PartitionVector]
    refused: list[str]


class IdVector(msgspec.Struct):
    function: str
    arguments: list[Any]
    expected: str | int


class IdFile(msgspec.Struct):
    vectors: list[IdVector]


class PlanVector(msgspec.Struct):
    name: str
    tenant: TenantId
    workspace: WorkspaceId
    tasks: list[TaskSpec]
    canonical: str
    fingerprint: str
    order: list[str]
    chunk_size: int
    chunks: list[str]


class PlanFile(msgspec.Struct):
    vectors: list[PlanVector]


CANONICAL = msgspec.json.decode((HERE / "canonical_json.json").read_bytes(), type=CanonicalFile)
PARTITIONS = msgspec.json.decode((HERE / "partition_keys.json").read_bytes(), type=PartitionFile)
IDS = msgspec.json.decode((HERE / "ids.json").read_bytes(), type=IdFile)
PLANS = msgspec.json.decode((HERE / "plan_fingerprints.json").read_bytes(), type=PlanFile)


@pytest.mark.parametrize("vector", CANONICAL.vectors, ids=lambda vector: vector.name)
def test_canonical_json_is_what_it_always_was(vector: CanonicalVector) -> None:
    assert canonical_str(vector.input) == vector.canonical
    assert sha256_hex(vector.input) == vector.sha256


@pytest.mark.parametrize("text", CANONICAL.refused)
def test_what_has_no_canonical_json_stays_without(text: str) -> None:
    with pytest.raises(Invalid):
        canonical_str(json.loads(text))


def _scalar(kind: ValueType, value: str | int | bool | None) -> Scalar:
    match kind:
        case ValueType.DATE:
            return date.fromisoformat(cast("str", value))
        case ValueType.TIMESTAMP:
            return datetime.fromisoformat(cast("str", value))
        case _:
            return value


@pytest.mark.parametrize("vector", PARTITIONS.vectors, ids=lambda vector: vector.name)
def test_a_partition_key_is_what_it_always_was(vector: PartitionVector) -> None:
    key = PartitionKey.of({name: _scalar(*typed) for name, typed in vector.values.items()})
    types = {name: kind for name, (kind, _) in vector.values.items()}
    assert key.canonical() == vector.canonical
    assert key.display() == vector.display
    assert PartitionKey.parse(vector.canonical) == key
    assert PartitionKey.from_display(vector.display, types) == key
    assert key.dimensions() == types


@pytest.mark.parametrize("text", PARTITIONS.refused)
def test_a_text_that_is_no_canonical_partition_key_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        PartitionKey.parse(text)


def _ulid(milliseconds: int, entropy: str) -> str:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return ids.ulid(instant, bytes.fromhex(entropy))


def _run_id(salt: str, *rest: Any) -> str:
    return ids.run_id(bytes.fromhex(salt), *rest)


@pytest.mark.parametrize("vector", IDS.vectors, ids=lambda vector: vector.function)
def test_a_derived_id_is_what_it_always_was(vector: IdVector) -> None:
    functions = vars(ids) | {"ulid": _ulid, "run_id": _run_id}
    assert functions[vector.function](*vector.arguments) == vector.expected


@pytest.mark.parametrize("vector", PLANS.vectors, ids=lambda vector: vector.name)
def test_a_plan_is_what_it_always_was(vector: PlanVector) -> None:
    plan = normalize(vector.tasks)
    chunks = [chunk_digest(chunk_bytes(chunk)) for chunk in split(plan, vector.chunk_size)]
    assert [task.task_key for task in plan.tasks] == vector.order
    assert fingerprint(vector.tenant, vector.workspace, plan) == vector.fingerprint
    assert vector.fingerprint == f"v1:sha256:{sha256_hex(json.loads(vector.canonical))}"
    assert chunks == vector.chunks
