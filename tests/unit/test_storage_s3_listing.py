"""Listings in the order of bytes, from servers of either kind.

Two models of a server: one lists by bytes, as Amazon does; the other keeps a tree, lists folder by
folder, and skips a whole folder when asked to start after its name, as SeaweedFS does.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servo.ports.object_store import ObjectMeta
from servo.storage.keys import folder_of, is_key
from servo.storage.s3_listing import first_in_order, start_before

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Server = Callable[[list[str], str, str], Iterator[str]]


def by_bytes(keys: list[str], folder: str, start: str) -> Iterator[str]:
    return iter(sorted(key for key in keys if key.startswith(folder) and key > start))


def by_tree(keys: list[str], folder: str, start: str) -> Iterator[str]:
    listed = sorted((key for key in keys if key.startswith(folder)), key=lambda key: key.split("/"))
    return (
        key
        for key in listed
        if key.split("/") > start.split("/") and not key.startswith(f"{start}/")
    )


def meta(key: str) -> ObjectMeta:
    return ObjectMeta(key=key, size=0, modified=EPOCH, version="")


def list_after(
    server: Server, keys: list[str], prefix: str, *, after: str, limit: int | None
) -> list[str]:
    # As the adapter does, which asks nothing where nothing can be.
    if after > prefix and not after.startswith(prefix):
        return []
    found = server(keys, folder_of(prefix), start_before(prefix, after))
    metas = first_in_order(map(meta, found), prefix, after=after, limit=limit)
    return [each.key for each in metas]


names = st.text("ab-./0é", min_size=1, max_size=7).filter(is_key)


@st.composite
def listings(draw: st.DrawFn) -> tuple[list[str], str, str]:
    """Some keys, and a prefix and a key to start after that have to do with them."""
    keys = draw(st.lists(names, unique=True, min_size=1, max_size=30))
    beginnings = ["", "", *(key[:end] for key in keys for end in range(1, len(key) + 1))]
    bounds = st.sampled_from(beginnings)
    return keys, draw(bounds), draw(bounds)


@pytest.mark.parametrize("server", [by_bytes, by_tree])
@given(listing=listings(), limit=st.none() | st.integers(0, 6))
@example(listing=(["a/x", "a-b"], "", ""), limit=1)
@example(listing=(["a/x", "a-b"], "", "a-b"), limit=None)
@example(listing=(["a/x", "a-b"], "a-", ""), limit=None)
@example(listing=(["a/b/x", "a/b-x", "a-"], "", ""), limit=2)
def test_whatever_the_server_orders_by_the_listing_is_by_bytes(
    server: Server, listing: tuple[list[str], str, str], limit: int | None
) -> None:
    keys, prefix, after = listing
    expected = sorted(key for key in keys if key.startswith(prefix) and key > after)

    assert list_after(server, keys, prefix, after=after, limit=limit) == expected[:limit]


@pytest.mark.parametrize("server", [by_bytes, by_tree])
def test_the_tail_of_a_long_ledger_is_read_without_its_beginning(server: Server) -> None:
    keys = [f"ledger/{number:020d}.json" for number in range(10_000)]
    read: list[str] = []

    def reading(keys: list[str], folder: str, start: str) -> Iterator[str]:
        for key in server(keys, folder, start):
            read.append(key)
            yield key

    listed = list_after(reading, keys, "ledger/", after=keys[7654], limit=5)

    assert listed == keys[7655:7660]
    assert len(read) < 50
