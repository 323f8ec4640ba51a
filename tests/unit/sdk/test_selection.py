"""Selections: what each part stands for, how strings are read, and the laws that hold for all."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.asset import asset
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.specs import AssetSpec
from servo.sdk.definitions.project import Project
from servo.sdk.selection.selection import AssetSelection


def made(key: str, *upstream: str, **options: Any) -> AssetsDefinition:
    """An asset of this key that depends on those."""

    def fn() -> None: ...

    return asset(key=key, deps=upstream, **options)(fn)


def made_together(*names: str) -> AssetsDefinition:
    """Assets that one function makes."""
    one = made(names[0])
    return AssetsDefinition(one.fn, tuple(AssetSpec(name) for name in names), one.signature)


# s → a → b, c → d → x, and raw/p → raw/q; s and x have no code.
PAIR = made_together("left", "right")
PROJECT = Project(
    [
        AssetSpec("s", group_name="in", tags={"slow": ""}, kinds={"s3"}, owners=["ann@x.org"]),
        made(
            "a",
            "s",
            group_name="in",
            tags={"slow": "", "team": "red"},
            owners=["ann@x.org", "team:data"],
            kinds={"python"},
        ),
        made("b", "a", group_name="mid", tags={"team": "blue"}, kinds={"duckdb", "python"}),
        made("c", "a", "elsewhere", group_name="mid"),
        made("d", "b", "c", owners=["bob@x.org"]),
        AssetSpec("x", deps=["d"]),
        made("raw/p"),
        made("raw/q", "raw/p", tags={"domain": "a/b:c=d"}),
        PAIR,
    ]
)

A = AssetSelection


def names(selection: AssetSelection, project: Project = PROJECT) -> str:
    """What is selected, in the order of the project."""
    return " ".join(key.canonical() for key in selection.resolve(project))


# --- what each part stands for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (A.all(), "left raw/p raw/q right a b c d"),
        (A.all(include_sources=True), "left raw/p raw/q right s a b c d x"),
        (A.assets(), ""),
        (A.assets("d", "a"), "a d"),
        (A.assets("raw/p", ["raw", "q"], AssetKey("x"), AssetSpec("s")), "raw/p raw/q s x"),
        (A.assets(PAIR), "left right"),
        (A.keys("a", AssetKey(["raw", "p"])), "raw/p a"),
        (A.key_prefixes("raw", ["a"]), "raw/p raw/q a"),
        (A.key_prefixes(["raw", "p"]), "raw/p"),
        (A.key_prefixes("ra"), ""),
        (A.key_prefixes("s"), ""),
        (A.key_prefixes("s", include_sources=True), "s"),
        (A.key_substring("w/"), "raw/p raw/q"),
        (A.key_substring("x"), ""),
        (A.key_substring("x", include_sources=True), "x"),
        (A.groups("in"), "a"),
        (A.groups("in", "mid"), "a b c"),
        (A.groups("in", include_sources=True), "s a"),
        (A.groups("default"), "left raw/p raw/q right d"),
        (A.groups("nowhere"), ""),
        (A.tag("team", "red"), "a"),
        (A.tag("team", "green"), ""),
        (A.tag("team", ""), ""),
        (A.tag("team", None), "a b"),
        (A.tag("slow", "", include_sources=True), "s a"),
        (A.tag_string("team=blue"), "b"),
        (A.tag_string("team="), ""),
        (A.tag_string("team"), "a b"),
        (A.kind("python"), "a b"),
        (A.kind("s3"), ""),
        (A.kind("s3", include_sources=True), "s"),
        (A.owner("ann@x.org"), "a"),
        (A.owner("ann@x.org", include_sources=True), "s a"),
        (A.owner("team:data"), "a"),
        (A.checks_for_assets("a", PAIR), ""),
        (A.all_asset_checks(), ""),
        (A.checks("some check"), ""),
    ],
    ids=repr,
)
def test_a_constructor_selects(selection: AssetSelection, expected: str) -> None:
    assert names(selection) == expected


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (A.assets("d").upstream(), "a b c d"),
        (A.assets("d").upstream(1), "b c d"),
        (A.assets("d").upstream(0), "d"),
        (A.assets("d").upstream(include_self=False), "a b c"),
        (A.assets("d", "b").upstream(depth=1, include_self=False), "a c"),
        (A.assets("s").upstream(), "s"),
        (A.assets("x").upstream(), "a b c d x"),
        (A.assets("a").downstream(), "a b c d x"),
        (A.assets("a").downstream(1), "a b c"),
        (A.assets("a").downstream(depth=2, include_self=False), "b c d"),
        (A.assets("s").downstream(1), "s a"),
        (A.assets("a", "b", "c", "d").roots(), "a"),
        (A.assets("a", "d").roots(), "a"),
        (A.assets("b", "c", "d").sources(), "b c"),
        (A.assets("s", "a", "x").roots(), "a"),
        (A.assets("s").roots(), ""),
        (A.all().roots(), "left raw/p right a"),
        (A.assets("a", "b", "c").sinks(), "b c"),
        (A.assets("a", "d").sinks(), "d"),
        (A.all().sinks(), "left raw/q right d"),
        (A.all(include_sources=True).sinks(), "left raw/q right x"),
        (A.assets("d").upstream_source_assets(), "s"),
        (A.assets("s", "a").upstream_source_assets(), "s"),
        (A.assets("s", "raw/q").upstream_source_assets(), ""),
        (A.assets("s", "a", "x").materializable(), "a"),
        (A.assets("left").required_multi_asset_neighbors(), "left right"),
        (A.assets("a", "s").required_multi_asset_neighbors(), "s a"),
        (A.assets("a").without_checks(), "a"),
        (A.assets("a") | A.assets("b"), "a b"),
        (A.groups("mid") & A.kind("duckdb"), "b"),
        (A.groups("mid") - A.kind("duckdb"), "c"),
        (A.groups("mid") - A.all_asset_checks(), "b c"),
        (A.assets("s", "a") - A.assets("a"), "s"),
        (~A.all(), "s x"),
        (~A.assets("a", "b"), "left raw/p raw/q right s c d x"),
    ],
    ids=repr,
)
def test_an_operator_selects(selection: AssetSelection, expected: str) -> None:
    assert names(selection) == expected


def test_assets_without_code_are_passed_through_on_the_way_up() -> None:
    project = Project([made("a"), AssetSpec("between", deps=["a"]), made("b", "between")])
    assert names(A.assets("b").upstream(), project) == "a b"
    assert names(A.assets("b").upstream_source_assets(), project) == "between"
    assert names(A.all().roots(), project) == "a"


def test_a_selection_is_a_value() -> None:
    built = A.groups("in") | A.assets("a").upstream(2)
    assert built == A.groups("in") | A.assets("a").upstream(2)
    assert hash(built) == hash(A.groups("in") | A.assets("a").upstream(2))
    assert built != A.groups("in") | A.assets("a").upstream(3)
    assert repr(A.groups("in")) == "AssetSelection(query=Group(name='in', include_sources=False))"
    with pytest.raises(AttributeError):
        built.query = A.all().query  # pyright: ignore[reportAttributeAccessIssue] - it is frozen


def test_chains_of_one_operator_are_flat_whatever_their_parentheses() -> None:
    a, b, c = (A.assets(name) for name in "abc")
    assert (a | b) | c == a | (b | c) == A.assets("a", "b", "c")
    assert (a & b) & c == a & (b & c)
    assert a - b - c == a & ~b & ~c


def test_an_asset_that_is_not_there_is_told_with_the_one_that_was_meant() -> None:
    project = Project([made("raw/orders"), made("clean/users")])
    for text in ("raw/order", "orders", "key:raw.ordesr"):
        with pytest.raises(Invalid, match="there is no asset") as told:
            A.from_string(f"clean/users or {text}").resolve(project)
        assert told.value.remedy == "did you mean 'raw.orders'?"
    with pytest.raises(Invalid) as told:
        A.assets("zzz").resolve(project)
    assert told.value.remedy == "select an asset that is defined"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: A.assets("a").upstream(-1), "depth is -1"),
        (lambda: A.assets("a").downstream(-1), "depth is -1"),
        (lambda: A.assets(3), "does not name an asset"),
        (lambda: A.from_coercible(None), "does not name an asset"),
        (lambda: A.from_coercible({"a": 1}), "does not name an asset"),
        (lambda: A.tag_string("a=b=c"), "not a key and a value"),
        (lambda: A.tag_string("=b"), "not a key and a value"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(wrong: Callable[[], object], why: str) -> None:
    with pytest.raises(Invalid, match=why) as told:
        wrong()
    assert told.value.remedy


@pytest.mark.parametrize(
    "combine", [lambda: A.all() | "a", lambda: A.all() & "a", lambda: A.all() - "a"]
)
def test_only_selections_are_combined(combine: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        combine()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (A.groups("mid"), "b c"),
        ("a+1 and not b", "a c"),
        (AssetKey("a"), "a"),
        (PAIR, "left right"),
        (AssetSpec("x"), "x"),
        (["a+1", "raw/q"], "raw/q a b c"),
        (["a", "b,d"], "a b d"),
        ([AssetKey("b"), AssetKey("a")], "a b"),
        ([PAIR, made("a")], "left right a"),
        ([["raw", "p"], A.groups("mid"), "d"], "raw/p b c d"),
        ((), ""),
        ({"a"}, "a"),
    ],
    ids=repr,
)
def test_what_people_pass_becomes_the_selection_they_meant(given: Any, expected: str) -> None:
    assert names(A.from_coercible(given)) == expected


# --- strings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", "left raw/p raw/q right a b c d"),
        ("a", "a"),
        ('"a"', "a"),
        ("  a\n", "a"),
        ("raw/p", "raw/p"),
        ("raw.p", "raw/p"),
        ('"raw/p"', "raw/p"),
        ("s", "s"),
        ("key:a", "a"),
        ('key:"raw/p"', "raw/p"),
        ('key: "a"', "a"),
        ("key:raw.p", "raw/p"),
        ('key:"raw/*"', "raw/p raw/q"),
        ("key:raw/*", "raw/p raw/q"),
        ("key:raw.*", "raw/p raw/q"),
        ("key:r*", "raw/p raw/q right"),
        ("key:*t", "left right"),
        ('"r*t"', "right"),
        ("key:r*/*q", "raw/q"),
        ("key:*i*h*", "right"),
        ("key:*h*i*", ""),
        ("key:ri*ight", ""),
        ("key:raw", None),
        ("key:*", "left raw/p raw/q right s a b c d x"),
        ("key:**", "left raw/p raw/q right s a b c d x"),
        ("key:nothing_*", ""),
        ('tag:"team"="red"', "a"),
        ("tag:team=red", "a"),
        ("tag:team", "a b"),
        ('tag:"slow"', "a"),
        ('tag:"team"=""', ""),
        ('tag:domain="a/b:c=d"', "raw/q"),
        ('tag:"t*"', ""),
        ('owner:"ann@x.org"', "a"),
        ("owner:ann@x.org", "a"),
        ("owner:team:data", "a"),
        ('group:"mid"', "b c"),
        ("group:mid", "b c"),
        ('kind:"python"', "a b"),
        ("kind:python", "a b"),
        ("+d", "a b c d"),
        ("+ d", "a b c d"),
        ("a+", "a b c d x"),
        ("1+d", "b c d"),
        ("2+d", "a b c d"),
        ("0+d", "d"),
        ("a+1", "a b c"),
        ("a+2", "a b c d"),
        ("+b+", "a b d x"),
        ("1+d+1", "b c d x"),
        ("1+b+", "a b d x"),
        ("+key:d", "a b c d"),
        ('key:"a"+1', "a b c"),
        ("1+key:d+1", "b c d x"),
        ("key:raw/*+", "raw/p raw/q"),
        ("group:mid+", "b c d x"),
        ("1+group:mid", "a b c"),
        ("tag:team=blue+1", "b d"),
        ("(b or c)+1", "b c d"),
        ("+(a+1)", "a b c"),
        ("(+(raw/q))", "raw/p raw/q"),
        ("*d", "a b c d"),
        ("a*", "a b c d x"),
        ("*b*", "a b d x"),
        ('*"b"', "a b"),
        ("+*", "left raw/p raw/q right a b c d"),
        ("*+1", "left raw/p raw/q right a b c d x"),
        ("a and a", "a"),
        ("group:mid and kind:duckdb", "b"),
        ("a or b", "a b"),
        ("a OR b Or c oR d", "a b c d"),
        ("group:mid AND NOT b", "c"),
        ("not *", "s x"),
        ("not not a", "a"),
        ("not not not (a or *)", "s x"),
        ("(a)", "a"),
        ("((a or b))", "a b"),
        ("roots(*)", "left raw/p right a"),
        ("sinks(group:in or group:mid)", "b c"),
        ("roots(+d)", "a"),
        ("sinks( a+ )+", "x"),
        ("1+roots(group:mid)", "a b c"),
        ("a,b", "a b"),
        ("a,b+", "a b d x"),
        ("a, 1+d ,raw/p", "raw/p a b c d"),
        ("(a,b) and (b,c)", "b"),
        ("roots(a,b)", "a"),
    ],
)
def test_a_text_selects(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(Invalid, match="there is no asset"):
            A.from_string(text).resolve(PROJECT)
    else:
        assert names(A.from_string(text)) == expected


a, b, c, d = (A.assets(name) for name in "abcd")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a or b and c", a | (b & c)),
        ("(a or b) and c", (a | b) & c),
        ("a and b or c and d", (a & b) | (c & d)),
        ("not a and b", ~a & b),
        ("not (a and b)", ~(a & b)),
        ("not a or b", ~a | b),
        ("a and not b", a - b),
        ("not a+", ~a.downstream()),
        ("not +a", ~a.upstream()),
        ("(not a)+", (~a).downstream()),
        ("a and b+ or c", (a & b.downstream()) | c),
        ("+a and b", a.upstream() & b),
        ("a, b and c", a | (b & c)),
        ("a or b, c", A.assets("a", "b", "c")),
        ("1+a+2", a.upstream(1) | a.downstream(2)),
        ("+(a+)", a.downstream().upstream()),
        ("roots(a or b)+1", (a | b).roots().downstream(1)),
        ("sinks(a)", a.sinks()),
        ("+a and not a", a.upstream(include_self=False)),
        ("a and *", a.materializable()),
        ("key:*x* and *", A.key_substring("x")),
        ('tag:"k"="v"', A.tag("k", "v")),
        ("tag:k", A.tag_string("k")),
        ("group:g or group:h", A.groups("g", "h")),
        ("owner:o and kind:k", A.owner("o") & A.kind("k")),
        ("key:*", A.all(include_sources=True)),
        ("*", A.all()),
    ],
)
def test_a_text_says_the_same_as_the_objects(text: str, same: AssetSelection) -> None:
    assert A.from_string(text) == same


@pytest.mark.parametrize(
    ("text", "character", "problem", "remedy"),
    [
        ("(a or b", 1, 'this "(" is never closed', 'expected ")"'),
        ("a and (b or (c", 13, "never closed", 'expected ")"'),
        ("a)", 2, "unexpected )", "or the end"),
        ("(a b)", 4, "unexpected b", '"and", "or", "," or ")"'),
        ("a b", 3, "unexpected b", '"and", "or"'),
        ("()", 2, "unexpected )", "an asset"),
        ("a and", 6, "the text ends", "an asset"),
        ("a or or b", 6, "unexpected or", "an asset"),
        ("and a", 1, "unexpected and", "an asset"),
        ("not", 4, "the text ends", "an asset"),
        ("a,", 3, "the text ends", "an asset"),
        (",a", 1, "unexpected ,", "an asset"),
        ("+", 2, "the text ends", "an asset"),
        ("+not a", 2, "unexpected not", "an asset"),
        ("++a", 2, "unexpected +", '"2+" before'),
        ("a++", 3, "unexpected +", '"+2" after'),
        ("a+2b", 3, "unexpected 2b", '"and", "or"'),
        ("1234567+a", 1, "too many layers", "smaller number"),
        ("a+1234567", 3, "too many layers", "smaller number"),
        ("ends(a)", 1, "no function ends", "roots(…) or sinks(…)"),
        ("b and upstream (a)", 7, "no function upstream", "roots(…) or sinks(…)"),
        ("roots()", 7, "unexpected )", "an asset"),
        ("team:x", 1, "no filter team", "key:, tag:, owner:, group: or kind:"),
        ("key:", 5, "the text ends", "a name"),
        ("group:(a)", 7, "unexpected (", "a name"),
        ("owner::x", 7, "unexpected :", "a name"),
        ("tag:k=", 7, "the text ends", "a name"),
        ("tag:k==v", 7, "unexpected =", "a name"),
        ("group:m*", 8, "unexpected *", '"and", "or"'),
        ("a*b", 2, "a wildcard in a plain key", "key: before"),
        ("raw/*", 5, "a wildcard in a plain key", "key: before"),
        ("*group:x", 2, "unexpected group", '"and", "or"'),
        ("*roots(a)", 2, "unexpected roots", '"and", "or"'),
        ("a *", 3, "unexpected *", '"and", "or"'),
        ("**", 2, "unexpected *", '"and", "or"'),
        ('a or "b', 6, "this quote is never closed", "another quote"),
        ('"a\\n"', 3, "a backslash before an ordinary character", '\\"'),
        ('"a\\', 3, "a backslash before an ordinary character", '\\"'),
        ('a or ""', 6, "asset key part is empty", "at least one character"),
        ("a or b%c", 6, "contains '%'", "leave out"),
        ("a//b", 1, "is empty", "at least one character"),
        ("a=b", 2, "unexpected =", '"and", "or"'),
    ],
)
def test_a_text_that_does_not_parse_is_told_with_its_place_and_what_was_expected(
    text: str, character: int, problem: str, remedy: str
) -> None:
    with pytest.raises(Invalid) as told:
        A.from_string(text)
    assert told.value.message.startswith(f"selection, character {character}: ")
    assert problem in told.value.message
    assert remedy in told.value.remedy
    assert told.value.remedy.endswith(f"\n    {text}\n    {' ' * (character - 1)}^")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_selects_nothing_by_mistake(text: str) -> None:
    with pytest.raises(Invalid, match="empty") as told:
        A.from_string(text)
    assert '"*" for all' in told.value.remedy


def test_the_caret_stays_below_its_character() -> None:
    def shown(text: str) -> list[str]:
        with pytest.raises(Invalid) as told:
            A.from_string(text)
        return told.value.remedy.split("\n")[1:]

    assert shown("a\n\tor )") == ["    a  or )", "          ^"]
    assert shown("売上 )") == ["    売上 )", "         ^"]
    assert shown("q\N{COMBINING DOT BELOW} )") == ["    q\N{COMBINING DOT BELOW} )", "      ^"]
    long = "a or " * 100
    assert shown(f"{long}){long}") == [
        f"    …{'a or ' * 10}){'a or ' * 3}a or…",
        "    " + " " * 51 + "^",
    ]


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [" or ", " and ", ",", " or not "])
def test_a_chain_of_a_thousand_operands_is_read_and_resolved(operator: str) -> None:
    parsed = A.from_string(operator.join(["a"] * 1000))
    assert "a" in names(parsed).split()
    assert A.from_string(parsed.to_selection_str()) == parsed


def test_a_chain_of_a_thousand_objects_is_resolved() -> None:
    union, difference = A.assets("a"), A.all()
    for _ in range(1000):
        union |= A.groups("mid")
        difference -= A.groups("mid")
    assert names(union) == "a b c"
    assert names(difference) == "left raw/p raw/q right a d"
    assert names(A.from_coercible(["a"] * 1000)) == "a"


def test_a_thousand_nots_are_none() -> None:
    assert A.from_string("not " * 1000 + "a") == A.assets("a")


def test_nesting_is_limited_instead_of_exhausting_the_stack() -> None:
    assert A.from_string("(" * 50 + "a" + ")" * 50) == A.assets("a")
    assert names(A.from_string("roots(" * 50 + "a" + ")" * 50)) == "a"
    with pytest.raises(Invalid, match="character 51: nested 50 deep"):
        A.from_string("(" * 100_000)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["größe", "売上", "a b", "a+b", "(a)", 'say "hi"', "2*3", "and", "NOT", "roots", "7", "it's"],
)
def test_any_key_is_selected_by_its_text(key: str) -> None:
    project = Project([made(key), made("other"), made(f"{key}/2")])
    for selection in (A.assets(AssetKey(key)), A.assets(AssetKey([key, "2"]))):
        assert A.from_string(selection.to_selection_str()) == selection
        assert len(selection.resolve(project)) == 1


@pytest.mark.parametrize("key", ["größe", "売上", "roots", "key", "7", "it's", "a-b", "Ünïcode_1"])
def test_an_ordinary_key_needs_no_quotes(key: str) -> None:
    project = Project([made(key), made("other", key)])
    assert names(A.from_string(key), project) == key
    assert names(A.from_string(f"key:{key}+1 and not other"), project) == key
    assert names(A.from_string(f"1+{key}"), project) == key


def test_a_star_in_a_key_is_escaped_where_it_is_no_wildcard() -> None:
    project = Project([made("2*3"), made("2x3")])
    assert names(A.from_string('key:"2*3"'), project) == "2*3 2x3"
    assert names(A.from_string('key:"2\\*3"'), project) == "2*3"
    assert names(A.from_string('key:"2\\**"'), project) == "2*3"


@pytest.mark.parametrize(
    "selection",
    [
        A.assets(),
        A.key_prefixes("raw"),
        A.groups("in", include_sources=True),
        A.tag("k", "v", include_sources=True),
        A.all_asset_checks(),
        A.checks("c"),
        A.checks_for_assets("a"),
        A.all().upstream_source_assets(),
        A.all().required_multi_asset_neighbors(),
        A.all().without_checks() | A.groups("in"),
    ],
    ids=repr,
)
def test_what_the_grammar_cannot_say_is_refused_rather_than_approximated(
    selection: AssetSelection,
) -> None:
    with pytest.raises(Invalid, match="cannot be written as text"):
        selection.to_selection_str()


# --- laws -----------------------------------------------------------------------------------------

TEXTS = st.text(max_size=5)
DEPTHS = st.none() | st.integers(0, 3)
LEAVES = (
    st.sampled_from([A.all(), A.all(include_sources=True), A.key_substring("r")])
    | st.lists(st.sampled_from(list(PROJECT.specs)), min_size=1, max_size=3).map(
        lambda keys: A.assets(*keys)
    )
    | st.lists(st.sampled_from(["in", "mid", "default"]), min_size=1, max_size=3).map(
        lambda groups: A.groups(*groups)
    )
    | st.sampled_from(["python", "duckdb"]).map(A.kind)
    | st.sampled_from(["ann@x.org", "team:data"]).map(A.owner)
    | st.sampled_from(["team", "team=red", "slow", "slow="]).map(A.tag_string)
    | TEXTS.map(A.owner)
    | st.tuples(TEXTS, st.none() | TEXTS).map(lambda pair: A.tag(*pair))
    | TEXTS.map(A.key_substring)
)


def combined(inner: st.SearchStrategy[AssetSelection]) -> st.SearchStrategy[AssetSelection]:
    """Selections that are made of these."""
    pairs = st.tuples(inner, inner)
    ways = st.tuples(inner, DEPTHS, st.booleans())
    return st.one_of(
        pairs.map(lambda two: two[0] | two[1]),
        pairs.map(lambda two: two[0] & two[1]),
        pairs.map(lambda two: two[0] - two[1]),
        inner.map(lambda one: ~one),
        inner.map(lambda one: one.roots()),
        inner.map(lambda one: one.sinks()),
        inner.map(lambda one: one.materializable()),
        ways.map(lambda way: way[0].upstream(*way[1:])),
        ways.map(lambda way: way[0].downstream(*way[1:])),
    )


SELECTIONS = st.recursive(LEAVES, combined, max_leaves=8)


@given(SELECTIONS)
def test_a_selection_is_what_its_text_parses_to(selection: AssetSelection) -> None:
    parsed = A.from_string(selection.to_selection_str())
    assert parsed == selection
    assert parsed.resolve(PROJECT) == selection.resolve(PROJECT)


@given(SELECTIONS, SELECTIONS, SELECTIONS)
def test_the_laws_of_sets_hold(a: AssetSelection, b: AssetSelection, c: AssetSelection) -> None:
    everything = A.all(include_sources=True)
    for one, other in [
        (~~a, a),
        (~(a | b), ~a & ~b),
        (~(a & b), ~a | ~b),
        (a - b, a & ~b),
        (a | b, b | a),
        (a & b, b & a),
        (a & (b | c), (a & b) | (a & c)),
        (a | (b & c), (a | b) & (a | c)),
        (a | ~a, everything),
        (a & everything, a),
        ((a - b) | (a & b), a),
    ]:
        assert one.resolve_inner(PROJECT) == other.resolve_inner(PROJECT)
    assert (a & ~a).resolve(PROJECT) == []


@given(SELECTIONS, DEPTHS)
def test_a_traversal_keeps_its_beginning_and_grows_with_its_depth(
    selection: AssetSelection, depth: int | None
) -> None:
    chosen = selection.resolve_inner(PROJECT)
    for whole, some in [
        (selection.upstream(), selection.upstream(depth)),
        (selection.downstream(), selection.downstream(depth)),
    ]:
        assert chosen <= some.resolve_inner(PROJECT) <= whole.resolve_inner(PROJECT)
    assert selection.roots().resolve_inner(PROJECT) <= chosen
    assert selection.sinks().resolve_inner(PROJECT) <= chosen


@given(st.text(alphabet='ab7 \n"\\*+,:=()', max_size=15) | st.text(max_size=15))
def test_any_text_is_a_selection_or_told_to_be_none(text: str) -> None:
    try:
        parsed = A.from_string(text)
    except Invalid as told:
        assert told.remedy  # noqa: PT017 - most strings are refused, and some must not be
    else:
        assert A.from_string(parsed.to_selection_str()) == parsed
