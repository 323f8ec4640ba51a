"""Executors: accepted by name, and what they limit."""

from typing import Any

import pytest

from servo import (
    Definitions,
    asset,
    in_process_executor,
    multi_or_in_process_executor,
    multiprocess_executor,
)
from servo.errors import Invalid
from servo.sdk.definitions.executors import ExecutorDefinition, at_most, check_executor


@asset
def one() -> int:
    return 1


FOUR = {"max_concurrent": 4}
LIMITS: list[tuple[ExecutorDefinition, int]] = [
    (in_process_executor, 1),
    (in_process_executor.configured(FOUR), 1),
    (multiprocess_executor, 8),
    (multiprocess_executor.configured({"max_concurrent": 0}), 8),
    (multiprocess_executor.configured(FOUR), 4),
    (multiprocess_executor.configured({"max_concurrent": 99}), 8),
    (multiprocess_executor.configured(None, name="mine"), 8),
    (multi_or_in_process_executor.configured({"multiprocess": FOUR}), 4),
    (multi_or_in_process_executor.configured({"in_process": None}), 1),
]


@pytest.mark.parametrize(("executor", "expected"), LIMITS)
def test_an_executor_limits_how_many_run_at_a_time(
    executor: ExecutorDefinition, expected: int
) -> None:
    project = Definitions([one], executor=executor).project()
    assert at_most(8, project.executor) == expected


def test_without_an_executor_there_is_no_limit() -> None:
    assert at_most(8, Definitions([one]).project().executor) == 8
    assert at_most(8, None, multiprocess_executor.configured(FOUR), in_process_executor) == 1


def test_a_name_can_be_given() -> None:
    assert multiprocess_executor.configured(FOUR, name="mine") == ExecutorDefinition(
        name="mine", max_concurrent=4
    )


@pytest.mark.parametrize("most", [-1, "four", 1.5, True])
def test_a_limit_that_is_none_is_refused(most: Any) -> None:
    with pytest.raises(Invalid, match="max_concurrent is"):
        multiprocess_executor.configured({"max_concurrent": most})


def test_a_configuration_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match=r"configured with 4; use configured\(\{"):
        multiprocess_executor.configured(4)  # pyright: ignore[reportArgumentType] - it is wrong


def test_other_executors_are_refused_by_name() -> None:
    class Kubernetes:
        name = "k8s_job_executor"

    with pytest.raises(Invalid, match="Definitions: there is no executor k8s_job_executor; use"):
        Definitions([one], executor=Kubernetes())
    with pytest.raises(Invalid, match="job nightly: there is no executor int"):
        check_executor(3, what="job nightly")


def test_definitions_with_executors_are_merged_if_there_is_one() -> None:
    with_one = Definitions([one], executor=in_process_executor, loggers={"console": "a logger"})
    merged = Definitions.merge(with_one, Definitions(), Definitions(executor=in_process_executor))
    assert merged.executor is in_process_executor
    assert merged.loggers == {"console": "a logger"}
    with pytest.raises(Invalid, match="several executors: in_process, multiprocess"):
        Definitions.merge(with_one, Definitions(executor=multiprocess_executor))
