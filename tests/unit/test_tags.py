"""Tags that Servo reads."""

from typing import Any

import pytest

from servo.core.tags import is_isolated, priority_of, request_tags
from servo.errors import Invalid
from servo.sdk.assets.asset import asset


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, 0),
        ({"servo/priority": "5"}, 5),
        ({"servo/priority": -3}, -3),
        ({"dagster/priority": "7"}, 7),
        ({"dagster/priority": "7", "servo/priority": "1"}, 1),
    ],
)
def test_a_priority_is_a_whole_number(tags: dict[str, Any], expected: int) -> None:
    assert priority_of(tags, "the run") == expected


@pytest.mark.parametrize("wrong", ["high", "1.5", "", str(10**10)])
def test_another_priority_is_refused(wrong: str) -> None:
    with pytest.raises(Invalid, match="the run: the priority is"):
        priority_of({"servo/priority": wrong}, "the run")
    with pytest.raises(Invalid, match="asset a: the priority is"):

        @asset(op_tags={"dagster/priority": wrong})
        def a() -> None: ...


def test_isolation_is_asked_for_by_a_task_or_by_its_run() -> None:
    asked = {"servo/isolation": "process"}
    assert is_isolated(asked, {})
    assert is_isolated({}, asked)
    assert not is_isolated({}, {"servo/isolation": "none"})


def test_an_isolation_that_there_is_not_is_refused() -> None:
    with pytest.raises(Invalid, match="asset a: isolation is 'thread'"):

        @asset(isolation="thread")
        def a() -> None: ...


def test_a_request_has_its_own_tags_before_those_of_the_project() -> None:
    given, project = {"a": "mine", "servo/code": "forged.py"}, {"a": "theirs", "b": "theirs"}
    assert request_tags(given, defaults=project, location="code.py", isolate=True) == {
        "a": "mine",
        "b": "theirs",
        "servo/code": "code.py",
        "servo/isolation": "process",
    }
    assert request_tags({}) == {}
