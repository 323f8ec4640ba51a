"""Lists of asset definitions as they are stored."""

import pytest

from servo.core.definitions import definitions_bytes, definitions_digest, parse_definitions
from servo.core.events.assets import AssetDefinition
from servo.core.ids import Digest
from servo.errors import Corrupt

ASSETS = (AssetDefinition(asset_key="ns/a", tags={"b": "1", "a": "2"}),)


def test_a_list_comes_back_from_its_bytes() -> None:
    data = definitions_bytes(ASSETS)
    assert parse_definitions(data, definitions_digest(data)) == ASSETS


def test_equal_lists_have_equal_bytes() -> None:
    same = AssetDefinition(asset_key="ns/a", tags={"a": "2", "b": "1"})
    assert definitions_bytes([same]) == definitions_bytes(ASSETS)


@pytest.mark.parametrize("damage", [b"", b"[]", b"not json"])
def test_bytes_that_do_not_match_the_digest_are_never_parsed(damage: bytes) -> None:
    digest = definitions_digest(definitions_bytes(ASSETS))
    with pytest.raises(Corrupt, match="do not match their hash"):
        parse_definitions(damage, digest)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="another shape"),
        pytest.param(b"[{}]", id="an asset without a key"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="a depth bomb"),
    ],
)
def test_matching_bytes_that_are_no_list_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="report this as a bug"):
        parse_definitions(data, definitions_digest(data))


def test_a_digest_is_the_hash_of_the_bytes() -> None:
    expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert definitions_digest(b"") == Digest(expected)
