"""What the driver of `make mutants` decides by itself; the tool's operators are not tested here."""

from textwrap import dedent

import pytest

from tests.mutants.changes import Change, Mutant, mutants
from tests.mutants.reach import in_function, in_rounds
from tests.mutants.reporting import Score, overall, report, score
from tests.mutants.rules import Rules
from tests.mutants.sampling import in_order, shares
from tests.mutants.survivors import Survivor, Survivors, known
from tests.mutants.trying import Result, Verdict

SOURCE = dedent('''
    """What the module promises."""

    import logging
    from typing import Protocol, TypeVar, assert_never, cast

    T = TypeVar("T")
    Rows = dict[str, "Row"]
    _log = logging.getLogger("servo")
    LIMIT = 3

    class Row(Struct, frozen=True, tag="row"):
        size: "int" = 0
        """How large it is – in bytes."""

        def __repr__(self) -> str:
            return "row"

    class Store(Protocol):
        def get(self, key: str, limit: int = 1) -> bytes: ...

    def read(store: Store, key: "Key") -> "bytes":
        _log.warning("slow", 7)
        if key == "":
            raise Invalid("no key", remedy="name it", may_have_applied=False)
        told = f"{key} rows"
        found = store.sql("SELECT 1", what="rows", fresh=False)
        many = False
        path = f"rows/{key}"
        match key:
            case "a":
                return cast("bytes", path)
            case _:
                assert_never(key)
''')


def mutant_of(was: str, now: str) -> Mutant:
    start = SOURCE.index(was)
    change = Change(start=start, end=start + len(was), now=now)
    (mutant,) = mutants("leader/rows.py", SOURCE, [change])
    return mutant


def counts(was: str, now: str) -> bool:
    return Rules(SOURCE).count(mutant_of(was, now).change)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('tag="row"', 'tag="ROW"'),
        ("= 0", "= 1"),
        ('key == ""', 'key != ""'),
        ("may_have_applied=False", "may_have_applied=True"),
        (", may_have_applied=False", ""),
        ('f"rows/{key}"', "None"),
        ('case "a"', 'case "A"'),
        ('"SELECT 1"', "None"),
        ("fresh=False", "fresh=True"),
    ],
)
def test_a_change_of_behaviour_counts(was: str, now: str) -> None:
    assert counts(was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("What the module promises.", "XX"),
        ("in bytes", "IN BYTES"),
        ('TypeVar("T")', 'TypeVar("t")'),
        ('dict[str, "Row"]', "None"),
        ("frozen=True", "frozen=False"),
        ('size: "int"', 'size: "INT"'),
        ('return "row"', 'return "ROW"'),
        ("limit: int = 1", "limit: int = 2"),
        ('-> "bytes"', '-> "BYTES"'),
        ('_log.warning("slow", 7)', '_log.warning("slow", 8)'),
        ('getLogger("servo")', "getLogger(None)"),
        ('"no key"', "None"),
        ('"no key", ', ""),
        ('remedy="name it", ', ""),
        ('f"{key} rows"', "None"),
        ('what="rows"', "what=None"),
        ("many = False", "many = None"),
        ('cast("bytes"', 'cast("BYTES"'),
        ("        case _:\n            assert_never(key)\n", ""),
    ],
)
def test_a_change_of_types_or_wording_does_not_count(was: str, now: str) -> None:
    assert not counts(was, now)


def test_a_mutant_is_recognised_when_its_lines_have_moved() -> None:
    first = mutant_of('key == ""', 'key != ""')
    moved = "# a comment\n" + SOURCE
    start = moved.index('key == ""')
    (second,) = mutants(
        "leader/rows.py", moved, [Change(start=start, end=start + 9, now='key != ""')]
    )
    assert second.line == first.line + 1
    assert second.name == first.name
    assert (second.scope, second.was, second.now) == ("read", 'if key == "":', 'if key != "":')


def test_the_same_change_further_down_is_another_mutant() -> None:
    source = "def f():\n    x = 1\n    x = 1\n"
    changes = [Change(start=at, end=at + 1, now="2") for at in (17, 27)]
    first, second = mutants("leader/f.py", source, changes)
    assert (first.was, first.now) == (second.was, second.now)
    assert first.name != second.name


def test_a_change_that_changes_nothing_is_no_mutant() -> None:
    assert list(mutants("leader/f.py", "x = 1\n", [Change(start=0, end=5, now="x = 1")])) == []


def test_a_removed_argument_is_told_by_its_lines_alone() -> None:
    source = "f(\n    a=1,\n    b=2,\n    c=3,\n)\n"
    removed = Change(start=0, end=len(source), now="f(\n    a=1,\n    c=3,\n)\n")
    (mutant,) = mutants("leader/f.py", source, [removed])
    assert (mutant.was, mutant.now, mutant.line) == ("b=2,", "", 3)


def test_every_package_has_the_same_share_as_far_as_it_has_so_many() -> None:
    assert shares({"a": 100, "b": 2, "c": 100}, 20) == {"a": 9, "b": 2, "c": 9}
    assert shares({"a": 3, "b": 2}, 20) == {"a": 3, "b": 2}
    assert shares({}, 20) == {}


def test_a_sample_is_a_function_of_its_seed_and_grows_without_changing() -> None:
    source = "\n".join(f"x{n} = {n}" for n in range(50))
    changes = [Change(start=at, end=at + 1, now="y") for at, c in enumerate(source) if c == "x"]
    found = list(mutants("leader/f.py", source, changes))
    assert in_order(reversed(found), 1) == in_order(found, 1)
    assert in_order(found, 1) != in_order(found, 2)
    fewer = [mutant for mutant in found if mutant != in_order(found, 1)[7]]
    assert in_order(fewer, 1) == [m for m in in_order(found, 1) if m in fewer]


def test_tests_near_the_change_come_first_then_cheap_ones_in_rounds() -> None:
    seconds = {"tests/far.py::a": 0.1, "tests/leader/t.py::slow": 3.0, "tests/leader/t.py::b": 1.0}
    files: dict[str, list[str]] = {}
    for test in seconds:
        files.setdefault(test.split("::")[0], []).append(test)
    rounds = in_rounds(files, seconds, near={"tests/leader/t.py"}, limits=(2.5, 5, 60))
    assert rounds == [["tests/leader/t.py::b", "tests/far.py::a"], ["tests/leader/t.py::slow"]]


def test_defaults_constants_and_fields_run_when_they_are_imported() -> None:
    lines = SOURCE.splitlines()
    called = {lines[n - 1].strip() for n in range(1, len(lines) + 1) if in_function(SOURCE, n)}
    assert 'if key == "":' in called
    assert 'return "row"' in called
    assert not called & {"LIMIT = 3", 'size: "int" = 0', "def __repr__(self) -> str:"}


def test_equivalent_mutants_do_not_count_and_packages_weigh_by_their_size() -> None:
    mutant = mutant_of("LIMIT = 3", "LIMIT = 4")
    entry = Survivor(
        path=mutant.path,
        scope="",
        was="LIMIT = 3",
        now="LIMIT = 4",
        equivalent=True,
        reason="nobody comes near it",
    )
    survived = Result(mutant=mutant, verdict=Verdict.SURVIVED)
    killed = Result(mutant=mutant_of('key == ""', 'key != ""'), verdict=Verdict.TESTS)
    listed = Survivors(survivor=(entry,))
    assert score([survived, killed], listed) == Score(killed=1, counted=1)
    assert score([survived, killed], Survivors()) == Score(killed=1, counted=2)
    assert overall({"leader": 50.0, "ledger": 100.0}, {"leader": 300, "ledger": 100}) == 62.5
    assert "KNOWN: nobody comes near it" in report([survived], {"leader": 10}, listed)
    assert "NEW: survived 0 tests" in report([survived], {"leader": 10}, Survivors())


def test_the_interval_is_wide_for_a_small_sample() -> None:
    low, high = Score(killed=9, counted=10).interval()
    assert (round(low), round(high)) == (60, 98)
    low, high = Score(killed=180, counted=200).interval()
    assert (round(low), round(high)) == (85, 93)


def test_every_known_survivor_has_a_reason() -> None:
    listed = known().survivor
    assert all(len(entry.reason) > 10 for entry in listed)
    assert len({(s.path, s.scope, s.was, s.now) for s in listed}) == len(listed)
