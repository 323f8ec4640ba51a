"""How worker processes are treated, as environment variables say it."""

import pytest

from servo.config import WorkerSettings, worker_settings
from servo.errors import Invalid


def test_without_variables_there_is_no_limit() -> None:
    assert worker_settings({}) == WorkerSettings(
        max_executions=0, max_memory_bytes=0, isolate=False
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1000", 1000), ("800M", 800 << 20), ("2 GiB", 2 << 30), ("3kb", 3072), (" ", 0), ("0", 0)],
)
def test_memory_is_told_in_bytes_or_with_a_unit(text: str, expected: int) -> None:
    assert worker_settings({"SERVO_WORKER_MAX_MEMORY": text}).max_memory_bytes == expected


def test_the_other_variables() -> None:
    environ = {"SERVO_WORKER_MAX_EXECUTIONS": "7", "SERVO_WORKER_ISOLATE": "Yes"}
    assert worker_settings(environ) == WorkerSettings(max_executions=7, isolate=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SERVO_WORKER_MAX_EXECUTIONS", "-1"),
        ("SERVO_WORKER_MAX_EXECUTIONS", "many"),
        ("SERVO_WORKER_MAX_MEMORY", "2 apples"),
        ("SERVO_WORKER_ISOLATE", "perhaps"),
    ],
)
def test_what_cannot_be_understood_is_told_with_the_variable(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=f"{name} is '{text}'"):
        worker_settings({name: text})
