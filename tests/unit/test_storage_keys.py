"""Which keys are refused, why, and that the fast way decides as the careful one."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servo.errors import Invalid
from servo.storage.keys import check_key, check_prefix, folder_of, is_key

REFUSED = [
    ("", "is empty"),
    ("/a", "starts with '/'"),
    ("a/", "ends with '/'"),
    ("a//b", "empty segment"),
    (".", "'.' or '..'"),
    ("a/../b", "'.' or '..'"),
    ("a/.", "'.' or '..'"),
    ("..", "'.' or '..'"),
    ("a\\b", "backslash"),
    ("a\0", "control character"),
    ("a\tb", "control character"),
    ("a\x7f", "control character"),
    ("a\x9f", "control character"),
    ("%2e%2e", "'%'"),
    ("50%", "'%'"),
    ("e\u0301", "normal form C"),
    ("\u212b", "normal form C"),
    ("\ud800", "surrogate"),
    ("\udfff", "surrogate"),
    ("\uffff", "Unicode noncharacter"),
    ("a" * 256, "segment longer than 255 bytes"),
    ("é" * 128, "segment longer than 255 bytes"),
    ("/".join(["a" * 90] * 10), "longer than 900 bytes"),
]


@pytest.mark.parametrize(("key", "complaint"), REFUSED)
def test_a_key_no_store_can_keep_is_refused_with_the_reason_and_a_remedy(
    key: str, complaint: str
) -> None:
    with pytest.raises(Invalid) as refused:
        check_key(key)

    assert complaint in refused.value.message
    assert refused.value.remedy
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("key", ["a", "a/b", "...", "a/..b/.c", "é", "a" * 255, "a b/c"])
def test_an_ordinary_key_is_returned_as_it_is(key: str) -> None:
    assert check_key(key) == key
    assert is_key(key)


def test_a_key_of_exactly_the_greatest_length_is_accepted() -> None:
    key = "/".join(["a" * 89] * 10)
    assert len(f"{key}b") == 900

    assert check_key(f"{key}b") == f"{key}b"
    with pytest.raises(Invalid):
        check_key(f"{key}bc")


def acceptable(key: str) -> bool:
    """The rules once more, with nothing in common with how the module checks them."""
    segments = key.split("/")
    try:
        raw = key.encode()
    except UnicodeEncodeError:
        return False
    return (
        all(segment not in {"", ".", ".."} and len(segment.encode()) < 256 for segment in segments)
        and len(raw) <= 900
        and not any(ord(char) < 32 or 127 <= ord(char) < 160 or char in "\\%" for char in key)
        and not any(char in key for char in "\ufffe\uffff")
        and unicodedata.normalize("NFC", key) == key
    )


alphabet = st.sampled_from("ab0/.%\\\0\n\x7f~-_é\u0301\ud800\uffff =") | st.characters()


@given(st.text(alphabet, max_size=12) | st.text("a/.", max_size=300))
@example("a/" * 200 + "a")
@example("a\n")
@example("a/..\n")
def test_exactly_the_keys_that_obey_every_rule_are_accepted(key: str) -> None:
    assert is_key(key) == acceptable(key)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", ".h"])
def test_a_prefix_may_be_empty_or_end_with_a_slash(prefix: str) -> None:
    assert check_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["/", "//", "a//", "../", "..", "a/../", "%", "/a"])
def test_a_prefix_that_could_leave_the_root_is_refused(prefix: str) -> None:
    with pytest.raises(Invalid):
        check_prefix(prefix)


def test_the_folder_of_a_prefix_ends_with_its_last_slash() -> None:
    assert [folder_of(prefix) for prefix in ("", "a", "a/", "a/b", "a/b/")] == [
        "", "", "a/", "a/", "a/b/"
    ]  # fmt: skip
