"""A run's plan: its tasks in one order, with one fingerprint, in pieces of bounded size.

`normalize` makes of any set of task specs the one plan they mean, or says what is wrong with them.
Equal plans then have equal fingerprints and equal chunks, byte for byte, wherever and in whatever
order they were put together. A chunk is stored under the hash of its bytes and is never parsed
before that hash was checked.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec

from servo.core.canonical import canonical_bytes, intern_defaults, sha256_hex
from servo.core.graph import topological_order
from servo.core.ids import Digest, TaskKeyStr, TenantId, WorkspaceId
from servo.core.keys import TaskOperation, task_key_text
from servo.core.retry import RetryRules, check_policy
from servo.core.wire import Int64
from servo.errors import Corrupt, Invalid

MAX_TASKS = 1_000_000
MAX_TOGETHER = 10_000
"""How many partitions one task can materialize."""

MIN_HEARTBEAT_TIMEOUT_MS = 5_000

INPUTS_TAG = "servo/inputs"
"""The tag of a task with the assets whose latest outputs it loads, separated by commas."""

INPUT_PARTITIONS_TAG = "servo/input_partitions"
"""The tag of a task with the upstream partitions that it loads, as JSON.

For each asset a list of keys, or null if the worker computes it. For other assets the task loads
the partition with its own key, or the latest output of an unpartitioned asset.
"""

_CHUNK_VERSION = 1


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a plan. Keys are canonical strings; a timeout of 0 means none.

    `also_makes` are the assets besides `asset_key` that the same execution materializes, and
    `also_partitions` the partitions of all of them besides `partition`.
    """

    task_key: TaskKeyStr
    asset_key: str
    also_makes: tuple[str, ...] = ()
    partition: str | None = None
    also_partitions: tuple[str, ...] = ()
    operation: TaskOperation = TaskOperation.MATERIALIZE
    upstream: tuple[TaskKeyStr, ...] = ()
    priority: Int64 = 0
    pool: str = ""
    queue: str = ""
    retry: RetryRules = RetryRules()
    timeout_ms: Int64 = 0
    heartbeat_timeout_ms: Int64 = 300_000
    dispatch_ack_timeout_ms: Int64 = 30_000
    memory_bytes: Int64 = 0
    cpu_millicores: Int64 = 0
    code_version: str = ""
    config_digest: Digest | None = None
    tags: dict[str, str] = {}

    def __post_init__(self) -> None:
        intern_defaults(self)

    @property
    def max_attempts(self) -> int:
        return self.retry.max_attempts


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that `normalize` has put in order: each after all it depends on."""

    tasks: tuple[TaskSpec, ...] = ()


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A contiguous part of a plan, as stored."""

    version: int = _CHUNK_VERSION
    tasks: tuple[TaskSpec, ...]


def input_partitions(tags: Mapping[str, str]) -> dict[str, tuple[str, ...] | None]:
    """The upstream partitions in the tags of a task, by asset; empty if they cannot be read."""
    told = tags.get(INPUT_PARTITIONS_TAG)
    if told is None:
        return {}
    try:
        return _listed.decode(told)
    except msgspec.MsgspecError:
        return {}


_listed = msgspec.json.Decoder(dict[str, tuple[str, ...] | None])


def normalize(specs: Iterable[TaskSpec]) -> Plan:
    """The plan of these tasks, which may be empty."""
    given = list(specs)
    if len(given) > MAX_TASKS:
        raise Invalid(
            f"a plan has {len(given)} tasks",
            remedy=f"split the run; the limit is {MAX_TASKS} tasks",
        )
    by_key: dict[TaskKeyStr, TaskSpec] = {}
    for spec in given:
        _check_spec(spec)
        if spec.task_key in by_key:
            raise Invalid(f"{spec.task_key} is planned twice", remedy="remove one of the two")
        by_key[spec.task_key] = _sort_upstream(spec)
    for policy in dict.fromkeys(spec.retry for spec in by_key.values()):
        _ = check_policy(policy)
    upstream = {key: spec.upstream for key, spec in by_key.items()}
    order = topological_order(by_key, upstream, key=str)
    return Plan(tasks=tuple([by_key[key] for key in order]))


def fingerprint(tenant: TenantId, workspace: WorkspaceId, plan: Plan) -> str:
    """The identity of a plan's content: `v1:sha256:` and 64 hex digits.

    Task key, upstream, priority and resources are always part of it, other fields only if they
    differ from their defaults, so that a field added later leaves old fingerprints unchanged.
    """
    tasks = sorted(plan.tasks, key=lambda spec: spec.task_key)
    spec = {
        "spec_version": 1,
        "tenant_id": tenant,
        "workspace_id": workspace,
        "tasks": [_normalized(task) for task in tasks],
    }
    return f"v1:sha256:{sha256_hex(spec)}"


def split(plan: Plan, size: int) -> Iterator[Chunk]:
    """The plan in order, in chunks of at most `size` tasks; an empty plan has none."""
    if size < 1:
        raise Invalid(f"the size of a plan chunk is {size}", remedy="use at least 1")
    for start in range(0, len(plan.tasks), size):
        yield Chunk(tasks=plan.tasks[start : start + size])


def chunk_bytes(chunk: Chunk) -> bytes:
    """The bytes that are stored for a chunk; equal chunks have equal bytes."""
    return canonical_bytes(chunk)


def chunk_digest(data: bytes) -> Digest:
    """The name under which the bytes of a chunk are stored."""
    return Digest(sha256(data).hexdigest())


def parse_chunk(data: bytes, digest: Digest) -> Chunk:
    """The chunk that was stored under `digest`; `Corrupt` if these are not its bytes."""
    if chunk_digest(data) != digest:
        raise Corrupt(
            f"plan chunk {digest} does not match its hash",
            remedy="restore the object from a backup, or start the run again",
        )
    try:
        chunk = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Corrupt(
            f"plan chunk {digest} cannot be decoded: {error}", remedy="report this as a bug"
        ) from error
    if chunk.version != _CHUNK_VERSION:
        raise Corrupt(f"plan chunk {digest} has version {chunk.version}", remedy="upgrade Servo")
    return chunk


_decoder = msgspec.json.Decoder(Chunk)


def _check_spec(spec: TaskSpec) -> None:
    if spec.task_key != task_key_text(spec.asset_key, spec.partition, spec.operation):
        raise Invalid(
            f"task key {spec.task_key} does not match its asset, partition and operation",
            remedy="build it with `task_key_text`",
        )
    if spec.also_partitions:
        _check_together(spec)
    for name, low in _FLOORS:
        if getattr(spec, name) < low:
            raise Invalid(
                f"{spec.task_key}: {name} is {getattr(spec, name)}", remedy=f"use at least {low}"
            )


def _check_together(spec: TaskSpec) -> None:
    """Reject partitions of one task that are missing, repeated, or too many."""
    names = (spec.partition, *spec.also_partitions)
    if None in names or len(set(names)) < len(names):
        raise Invalid(
            f"{spec.task_key} has several partitions, but the first is missing or one is repeated",
            remedy="set `partition` to the first, and list each of the others once",
        )
    if len(names) > MAX_TOGETHER:
        raise Invalid(
            f"{spec.task_key} materializes {len(names)} partitions",
            remedy=f"materialize at most {MAX_TOGETHER} at once, with BackfillPolicy.multi_run",
        )


_FLOORS = (
    ("heartbeat_timeout_ms", MIN_HEARTBEAT_TIMEOUT_MS),
    ("dispatch_ack_timeout_ms", 1),
    ("timeout_ms", 0),
    ("memory_bytes", 0),
    ("cpu_millicores", 0),
)


def _sort_upstream(spec: TaskSpec) -> TaskSpec:
    upstream = tuple(sorted(dict.fromkeys(spec.upstream)))
    # Most planners sort already, and comparing is ten times cheaper than copying.
    return spec if upstream == spec.upstream else msgspec.structs.replace(spec, upstream=upstream)


def _normalized(spec: TaskSpec) -> Mapping[str, object]:
    rest = {name: getattr(spec, name) for name, default in _REST if getattr(spec, name) != default}
    return rest | {
        "task_key": spec.task_key,
        "upstream_keys": spec.upstream,
        "priority": spec.priority,
        "resources": {
            "memory_bytes": spec.memory_bytes,
            "cpu_millicores": spec.cpu_millicores,
            "timeout_ms": spec.timeout_ms,
        },
    }


# What the task key, the dependencies and the resources do not say already.
_REST: tuple[tuple[str, object], ...] = (
    ("also_makes", ()),
    ("also_partitions", ()),
    ("pool", ""),
    ("queue", ""),
    ("retry", RetryRules()),
    ("heartbeat_timeout_ms", 300_000),
    ("dispatch_ack_timeout_ms", 30_000),
    ("code_version", ""),
    ("config_digest", None),
    ("tags", {}),
)


CHECKS_TAG = "servo/checks"


def chosen_checks(tags: Mapping[str, str]) -> tuple[str, ...] | None:
    """The checks in the tags of a task; None if it runs all."""
    told = tags.get(CHECKS_TAG)
    return None if told is None else tuple(told.split(",")) if told else ()
