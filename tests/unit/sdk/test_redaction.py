"""A value that was resolved is found in whatever a string makes of it."""

import base64
import json
import sys
import threading
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servo.sdk.resources.redaction import STARS, Redaction

SECRET = 'p/ss "wörd"+\n\'x\\y'

SPELLED: dict[str, Callable[[str], str]] = {
    "plain": lambda v: v,
    "repr": repr,
    "ascii": ascii,
    "json": json.dumps,
    "json in utf-8": lambda v: json.dumps(v, ensure_ascii=False),
    "a quoted path": quote,
    "a quoted part": lambda v: quote(v, safe=""),
    "a form": quote_plus,
    "a form in lower case": lambda v: quote(v, safe="").lower() if v == v.lower() else "",
    "a query": lambda v: urlencode({"password": v}),
    "base64": lambda v: base64.b64encode(v.encode()).decode(),
    "base64 for urls": lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
    "base64 in lines": lambda v: base64.encodebytes(v.encode()).decode(),
    "basic authentication": lambda v: base64.b64encode(f"user:{v}".encode()).decode(),
    "within base64": lambda v: base64.b64encode(f"me:{v}:more".encode()).decode(),
    "hexadecimal": lambda v: v.encode().hex(),
    "in a dictionary": lambda v: repr({"password": v, "user": "me"}),
    "beside quotes": lambda v: repr(f"'{v}' and \"more\""),
}
PEM = "-----BEGIN KEY-----\n" + "\n".join(f"{n}" * 64 for n in "abc") + "\n-----END KEY-----\n"


def hiding(*values: object) -> Redaction:
    made = Redaction()
    for value in values:
        made.add(value)
    return made


@pytest.mark.parametrize("spelling", SPELLED)
@pytest.mark.parametrize("value", [SECRET, "hunter2-canary", "x" * 100, "ab+/", PEM])
def test_a_value_is_hidden_however_it_is_spelled(spelling: str, value: str) -> None:
    text = f"before {SPELLED[spelling](value)} after"
    told = hiding(value).text(text)
    # Base64 of something longer shares the characters at its ends with its neighbours.
    recognizable = [SPELLED[spelling](value), value, *[v for v in value.splitlines() if len(v) > 7]]
    assert not [piece for piece in recognizable if len(piece) >= 4 and piece in told]
    if spelling != "a form in lower case" and len(value) >= 8:
        assert STARS in told
    assert told.startswith("before ")
    assert told.endswith(" after")


def test_lines_of_a_value_are_hidden_alone() -> None:
    assert hiding(PEM).text(f"the key has {'b' * 64}!") == f"the key has {STARS}!"


@given(value=st.text(min_size=4), before=st.text(), after=st.text())
@example(value="\ud800abcd", before="", after="")
def test_no_value_is_left_in_any_text(value: str, before: str, after: str) -> None:
    hide = hiding(value)
    told = hide.text(before + value + after)
    assert value not in told or len(value.strip()) < 4


@given(value=st.binary(min_size=6, max_size=50), before=st.binary(), after=st.binary())
def test_what_base64_leaves_of_a_value_is_less_than_a_byte(
    value: bytes, before: bytes, after: bytes
) -> None:
    text = value.hex()
    whole = base64.b64encode(before + text.encode() + after)
    told = hiding(text).data(whole)
    assert STARS.encode() in told
    kept = base64.b64encode(text.encode())
    assert kept not in told


def test_values_that_overlap_are_both_hidden() -> None:
    assert hiding("abcdef", "defghi").text("abcdefghi, abcdef, defghi!") == "***, ***, ***!"


def test_short_values_are_left() -> None:
    assert hiding("abc", "", "  a ", 12).text("abc 12 a") == "abc 12 a"


def test_a_number_is_hidden_as_text_and_known_as_number() -> None:
    hide = hiding("54321")
    assert hide.text("port 54321") == "port ***"
    assert hide.is_hidden(54321)
    assert not hide.is_hidden(5432)


@pytest.mark.parametrize("cut", range(30))
def test_no_half_of_a_value_is_left_where_a_text_is_cut(cut: int) -> None:
    secret = "0123456789"
    data = f"{'x' * 40}{secret}{'y' * cut}".encode()
    told = hiding(secret).tail(data, 15)
    assert len(told) <= 15
    assert not set(told) & set(secret.encode())


def test_what_is_short_enough_is_not_cut() -> None:
    assert hiding("0123456789").tail(b"abc", 15) == b"abc"
    assert hiding().tail(b"abcdef", 3) == b"def"


def test_of_very_many_values_the_last_are_hidden() -> None:
    hide = hiding(*(f"secret-{n:05d}" for n in range(2_000)))
    assert hide.text("secret-01999 secret-01000") == "*** ***"
    assert hide.text("secret-00001") == "secret-00001"


def test_a_value_is_hidden_while_another_thread_looks_for_those_before() -> None:
    made, over = Redaction(), threading.Event()

    def look() -> None:
        while not over.is_set():
            made.data(b"nothing")

    looking = threading.Thread(target=look)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    looking.start()
    try:
        for number in range(200):
            value = f"secret {number}"
            made.add(value)
            assert made.text(value) == STARS
    finally:
        over.set()
        looking.join()
        sys.setswitchinterval(interval)


def test_somebody_is_told_before_the_first_value_is_known() -> None:
    made = Redaction()
    told: list[bool] = []
    made.before_first(lambda: told.append(bool(made)))
    made.add("abc")  # too short to be hidden
    assert told == []
    made.add("a secret")
    made.add("another secret")
    assert told == [False]


@given(st.data())
def test_what_is_settled_holds_no_part_of_a_value_that_goes_on(data: st.DataObject) -> None:
    secret = "abcab-secret-abcab"
    known = Redaction()
    known.add(secret)
    text = data.draw(st.lists(st.sampled_from(["abc", "ab-", secret, "x\n", "-abcab"]), max_size=8))
    whole = "".join(text).encode()
    cut = data.draw(st.integers(0, len(whole)))
    shown, rest = known.settled(whole[:cut])
    assert shown + known.data(rest + whole[cut:]) == known.data(whole)


def test_a_number_of_a_few_digits_is_no_secret_in_an_identity() -> None:
    known = Redaction()
    for value in ("5432", "12345678", "word"):
        known.add(value)
    assert not known.holds_secret("17654321")
    assert not known.holds_secret("port 5432")
    assert known.holds_secret("12345678")
    assert known.holds_secret("a-word-of-honour")
    assert known.text("port 5432") == "port ***"
