"""Evaluator processes: answers in time, nothing left behind, and nobody kept waiting at the end."""

import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servo.code.evaluator.messages import Evaluated, EvaluateSensor
from servo.code.evaluator.pool import EvaluatorPool, was_lost
from servo.testing.eventually import eventually
from servo.testing.process_setups import setup_for
from servo.workspace.composition import system_clock, system_entropy

LIMIT = 30.0

CODE = """
import os
import subprocess
import time
from pathlib import Path
from servo import SkipReason, asset, sensor

VERSION = "first"

@asset
def orders():
    return 1

def left(name, **how):
    child = subprocess.Popen(["sleep", "1000"], **how)
    Path(name).write_text(str(child.pid))

@sensor(target="orders")
def ends(context):
    left("child")
    os._exit(7)

@sensor(target="orders")
def leaves_a_daemon(context):
    left("child", start_new_session=True)
    return SkipReason("left")

@sensor(target="orders")
def hangs(context):
    left("child")
    time.sleep(1000)

@sensor(target="orders")
def odd(context):
    reason = SkipReason()
    import msgspec
    msgspec.structs.force_setattr(reason, "skip_message", 5)
    return reason

@sensor(target="orders")
def well(context):
    return SkipReason(VERSION)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(CODE)
    return tmp_path


@pytest.fixture
def evaluators(folder: Path) -> Generator[EvaluatorPool]:
    made = EvaluatorPool(
        setup_for("assets.py", folder, str(folder / ".servo")),
        lambda: bytes(32),
        clock=system_clock(),
        entropy=system_entropy(),
    )
    yield made
    made.close()


def look(name: str) -> EvaluateSensor:
    return EvaluateSensor(sensor_id=name, eval_id="e")


def is_gone(folder: Path) -> bool:
    """Whether what user code started has ended, soon."""
    pid = int((folder / "child").read_text())

    def has_ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    try:
        return eventually(has_ended, LIMIT)
    except AssertionError:
        os.kill(pid, 9)
        return False


def test_only_a_process_that_hung_or_ended_over_the_question_was_lost() -> None:
    assert was_lost("the evaluator process ended with -9")
    assert was_lost("it took longer than 0.5 s to answer and was stopped")
    assert not was_lost("the evaluator process ended with 1 before it could import the code")
    assert not was_lost("it took longer than 120 s to import the code and was stopped")
    assert not was_lost("ValueError: it took longer than 2 s to answer and was stopped")
    assert not was_lost("")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ends", "the evaluator process ended with 7"),
        ("hangs", "it took longer than 2 s to answer and was stopped"),
    ],
)
def test_what_user_code_started_ends_with_its_process_and_the_next_is_answered(
    evaluators: EvaluatorPool, folder: Path, name: str, told: str
) -> None:
    assert evaluators.ask(look(name), 2) == Evaluated(error=told)
    assert was_lost(told)
    assert is_gone(folder)
    assert evaluators.ask(look("well"), LIMIT) == Evaluated(skipped="first")


def test_a_daemon_that_user_code_started_ends_with_its_process(
    evaluators: EvaluatorPool, folder: Path
) -> None:
    assert evaluators.ask(look("leaves_a_daemon"), LIMIT) == Evaluated(skipped="left")
    evaluators.close()
    assert is_gone(folder)


def test_whoever_waits_for_an_answer_is_let_go_when_everything_ends(
    evaluators: EvaluatorPool, folder: Path
) -> None:
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(evaluators.ask, look("hangs"), 1000) for _ in range(4)]
        eventually((folder / "child").exists)
        evaluators.close()
        answers = [future.result(LIMIT) for future in asked]
    assert all(answer.error for answer in answers)
    assert is_gone(folder)


def test_new_code_answers_as_soon_as_it_is_said_to_be_there(
    evaluators: EvaluatorPool, folder: Path
) -> None:
    assert evaluators.ask(look("well"), LIMIT).skipped == "first"
    (folder / "assets.py").write_text(CODE.replace('"first"', '"the second"'))
    assert evaluators.ask(look("well"), LIMIT).skipped == "first"
    evaluators.renew()
    assert evaluators.ask(look("well"), LIMIT).skipped == "the second"


def test_code_that_cannot_be_imported_is_told_as_such_until_it_can(
    evaluators: EvaluatorPool, folder: Path
) -> None:
    (folder / "assets.py").write_text(CODE + "\nthis is no code\n")
    answer = evaluators.ask(look("well"), LIMIT)
    assert answer.unasked
    assert "assets.py" in answer.error
    (folder / "assets.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    answer = evaluators.ask(look("well"), LIMIT)
    assert answer.unasked
    assert answer.error.endswith("ended with -9 before it could import the code")
    assert not was_lost(answer.error)
    (folder / "assets.py").write_text(CODE)
    assert evaluators.ask(look("well"), LIMIT).skipped == "first"


def test_many_who_ask_at_once_are_all_answered(evaluators: EvaluatorPool) -> None:
    answers: list[Evaluated] = []
    threads = [
        threading.Thread(target=lambda: answers.append(evaluators.ask(look("well"), LIMIT)))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert answers == [Evaluated(skipped="first")] * 12


def test_an_answer_that_cannot_be_read_is_told_and_leaves_no_process_behind(
    evaluators: EvaluatorPool, folder: Path
) -> None:
    for _ in range(2):
        assert "its answer cannot be read" in evaluators.ask(look("odd"), LIMIT).error
    assert evaluators.ask(look("well"), LIMIT).skipped == "first"
    named = [path for path in Path("/proc").glob("[0-9]*/cwd") if _leads_to(path, folder)]
    assert len(named) == 1


def _leads_to(link: Path, folder: Path) -> bool:
    try:
        return link.readlink() == folder
    except OSError:
        return False
