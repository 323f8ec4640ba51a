"""Lists of partitions as they are stored."""

import pytest

from servo.core.ids import Digest
from servo.core.partition_lists import (
    parse_partition_list,
    partition_list_bytes,
    partition_list_digest,
)
from servo.errors import Corrupt

KEYS = ("day=d:2025-01-01", "day=d:2025-01-02")


def test_a_list_is_read_as_it_was_stored() -> None:
    data = partition_list_bytes(KEYS)
    assert data == b'["day=d:2025-01-01","day=d:2025-01-02"]'
    assert parse_partition_list(data, partition_list_digest(data)) == KEYS


def test_other_bytes_than_were_stored_are_found_before_they_are_read() -> None:
    with pytest.raises(Corrupt, match="does not match its hash"):
        _ = parse_partition_list(b"[]", partition_list_digest(partition_list_bytes(KEYS)))


def test_what_is_no_list_is_told() -> None:
    data = b'{"no": "list"}'
    with pytest.raises(Corrupt, match="report this"):
        _ = parse_partition_list(data, Digest(partition_list_digest(data)))
