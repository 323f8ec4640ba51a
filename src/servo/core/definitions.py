"""Asset definitions: the row of a definition, and how a long list of them is stored."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from servo.core.canonical import canonical_bytes
from servo.core.events.assets import AssetDefinition
from servo.core.ids import Digest
from servo.core.state.rows.assets import AssetRow
from servo.errors import Corrupt

IN_PROCESS = "in process"
"""The location of assets defined in the running process, which have no file."""

_decoder = msgspec.json.Decoder(tuple[AssetDefinition, ...])


def as_defined(row: AssetRow, location: str, definition: AssetDefinition) -> AssetRow:
    """The row of an asset as a definition makes it; equal to `row` if that says so already."""
    return replace(
        row,
        defined=True,
        location=location,
        group=definition.group,
        upstream=definition.upstream,
        code_version=definition.code_version,
        partitions=definition.partitions,
        description=definition.description,
        tags=definition.tags,
        owners=definition.owners,
        kinds=definition.kinds,
        freshness_policy=definition.freshness_policy,
        automation_condition=definition.automation_condition,
        check_conditions=definition.check_conditions,
        retention_versions=definition.retention_versions,
        retention_age_ms=definition.retention_age_ms,
        partition_mappings=definition.partition_mappings,
    )


def definitions_bytes(assets: Sequence[AssetDefinition]) -> bytes:
    """The bytes that are stored for a list; equal lists have equal bytes."""
    return canonical_bytes(list(assets))


def as_stored(assets: Sequence[AssetDefinition]) -> tuple[AssetDefinition, ...]:
    """A list as it is read back."""
    return _decoder.decode(definitions_bytes(assets))


def definitions_digest(data: bytes) -> Digest:
    """The name under which the bytes of a list are stored."""
    return Digest(sha256(data).hexdigest())


def parse_definitions(data: bytes, digest: Digest) -> tuple[AssetDefinition, ...]:
    """The list that was stored under `digest`; `Corrupt` if these are not its bytes."""
    if definitions_digest(data) != digest:
        raise Corrupt(
            f"the stored definitions {digest} do not match their hash",
            remedy="restore the object from a backup, or deploy again",
        )
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Corrupt(
            f"the stored definitions {digest} cannot be decoded: {error}",
            remedy="report this as a bug",
        ) from error
