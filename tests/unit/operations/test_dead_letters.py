"""Dead letters are listed newest first, and shown with what was sent."""

import pytest

from servo.cli.main import run
from servo.core.events.originals import MAX_INLINE
from servo.core.events.quotas import PoolLimitSet
from servo.core.state.rows.system import DeadLetterRow
from servo.errors import Conflict, Corrupt, NotFound
from servo.operations.dead_letters import get_dead_letter, list_dead_letters
from servo.operations.interface.listing import Page
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory, open_world
from servo.workspace.workspace import Workspace

LARGE = b"x" * (MAX_INLINE + 1)


@pytest.fixture
def workspace() -> Workspace:
    address, world = Address("memory://dead-letters"), in_memory()
    return Workspace(address, world, AnyChannel(address, world))


def leave(workspace: Workspace, name: str, data: bytes) -> None:
    """Leave an object in the inbox, and let a leader take it."""
    _ = workspace.store.create(workspace.paths.inbox_item(name), data)
    _ = workspace.submit(PoolLimitSet(pool="db", limit=len(data))).checked()


def listed(workspace: Workspace, page: Page) -> tuple[list[DeadLetterRow], str | None]:
    found = list_dead_letters(workspace, page)
    return found.items, found.next_cursor


def test_letters_are_listed_newest_first_and_in_pages(workspace: Workspace) -> None:
    for name in ("1", "2", "3"):
        leave(workspace, name, name.encode() * 2)
    first, cursor = listed(workspace, Page(limit=2))
    rest, end = listed(workspace, Page(limit=2, before=cursor))
    assert [row.source for row in (*first, *rest)] == ["inbox:3", "inbox:2", "inbox:1"]
    assert end is None


@pytest.mark.parametrize(
    ("data", "text", "base64"),
    [(b"[]", "[]", None), (b"\xff\x00", None, "/wA="), (LARGE, LARGE.decode(), None)],
    ids=["text", "bytes", "stored"],
)
def test_a_letter_is_shown_with_what_was_sent(
    workspace: Workspace, data: bytes, text: str | None, base64: str | None
) -> None:
    leave(workspace, "1", data)
    found = get_dead_letter(workspace, "inbox:1")
    assert (found.text, found.base64, found.letter.size) == (text, base64, len(data))


def test_of_several_letters_of_one_source_the_hash_chooses(workspace: Workspace) -> None:
    leave(workspace, "1", b"one")
    leave(workspace, "1", b"two")
    with pytest.raises(Conflict, match="2 dead letters are from inbox:1"):
        _ = get_dead_letter(workspace, "inbox:1")
    newest = list_dead_letters(workspace, Page(limit=1)).items[0]
    assert get_dead_letter(workspace, "inbox:1", sha256=newest.sha256[:8]).text == "two"


def test_what_is_not_there_or_damaged_is_told(workspace: Workspace) -> None:
    leave(workspace, "1", LARGE)
    with pytest.raises(NotFound, match="no dead letter from inbox:2"):
        _ = get_dead_letter(workspace, "inbox:2")
    (row,) = list_dead_letters(workspace, Page(limit=1)).items
    _ = workspace.store.put(workspace.paths.dead_letter(row.sha256), b"other")
    with pytest.raises(Corrupt, match="does not hold what was sent"):
        _ = get_dead_letter(workspace, "inbox:1")


def test_the_command_line_lists_letters_and_prints_their_bytes(
    tmp_path: object, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    address = Address.of(str(tmp_path))
    world = open_world(str(tmp_path))
    leave(Workspace(address, world, AnyChannel(address, world)), "1", b"\xff\x00")
    store = ("--store", str(tmp_path))
    assert run(["admin", "dead-letters", "list", *store]) == 0
    assert b"inbox:1" in capfdbinary.readouterr().out
    assert run(["admin", "dead-letters", "show", "inbox:1", *store]) == 0
    shown = capfdbinary.readouterr()
    assert shown.out == b"\xff\x00"
    assert b"undecodable" in shown.err
