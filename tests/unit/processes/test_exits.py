"""A process ended with an exit code or a signal, and some signals have a usual cause."""

import pytest

from servo.processes.exits import exit_in_words, often_because


@pytest.mark.parametrize(
    ("code", "words"), [(3, "exit code 3"), (-9, "SIGKILL"), (-11, "SIGSEGV"), (-99, "signal 99")]
)
def test_an_end_is_named(code: int, words: str) -> None:
    assert exit_in_words(code) == words


def test_a_process_that_was_killed_may_have_used_all_memory() -> None:
    assert "memory" in often_because(-9)
    assert often_because(1) == often_because(-15) == ""
