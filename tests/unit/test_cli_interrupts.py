"""Ctrl-C is raised where no lock can be left taken, and a second one at once."""

import signal
import sys
import threading
from collections.abc import Generator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servo.cli.interrupts import Interrupts

INTERRUPT = partial(signal.raise_signal, signal.SIGINT)
SOON = 10.0
"""Longer than anything here takes: what waits so long was not interrupted."""


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Generator[None]:
    """Have this process react to Ctrl-C as Python does, and afterwards as before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The name of a module that interrupts its own import, so often as is said, and goes on."""
    name = f"{request.function.__name__}_module"
    code = f"import signal\nsignal.raise_signal({signal.SIGINT.value})\n" * request.param
    (tmp_path / f"{name}.py").write_text(f"{code}\ndone = True\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return name


def wait() -> None:
    assert not threading.Event().wait(SOON), "nobody sets it"


@pytest.mark.parametrize("module", [1], indirect=True)
def test_an_import_is_finished_before_ctrl_c_is_raised(module: str) -> None:
    found: list[Any] = []

    def work() -> None:
        found.append(import_module(module))
        wait()

    with Interrupts().raised_when_safe(), pytest.raises(KeyboardInterrupt):
        work()
    assert [one.done for one in found] == [True]


@pytest.mark.parametrize("module", [2], indirect=True)
def test_a_second_ctrl_c_is_raised_at_once(module: str) -> None:
    with Interrupts().raised_when_safe(), pytest.raises(KeyboardInterrupt):
        _ = import_module(module)


def test_a_lock_that_is_being_taken_is_not_left_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, condition = threading.Lock(), threading.Condition()

    def taken_and_let_go() -> None:
        with condition:
            pass
        wait()

    # As if the signal came between taking the lock and entering the body of `with`.
    assert lock.acquire()

    def let_go(*_: object) -> None:
        lock.release()

    interrupted = SimpleNamespace(__enter__=INTERRUPT, __exit__=let_go)
    monkeypatch.setattr(condition, "_lock", interrupted)
    with Interrupts().raised_when_safe(), pytest.raises(KeyboardInterrupt):
        taken_and_let_go()
    assert not lock.locked()


def test_whoever_waits_is_interrupted_at_once_by_either_signal() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), number))
        with Interrupts().raised_when_safe():
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                wait()
        timer.join()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_first_ctrl_c_changes_nothing_once_the_work_is_done() -> None:
    interrupts = Interrupts()
    with interrupts.raised_when_safe():
        interrupts.ends()
        INTERRUPT()
        with pytest.raises(KeyboardInterrupt):
            INTERRUPT()


def test_after_ctrl_c_the_next_one_is_raised_also_while_it_ends() -> None:
    interrupts = Interrupts()
    with interrupts.raised_when_safe():
        with pytest.raises(KeyboardInterrupt):
            INTERRUPT()
        interrupts.ends()
        with pytest.raises(KeyboardInterrupt):
            INTERRUPT()


@pytest.mark.parametrize("module", [1], indirect=True)
def test_one_that_was_kept_until_the_end_is_raised_there(module: str) -> None:
    def work() -> None:
        with Interrupts().raised_when_safe():
            assert import_module(module).done

    with pytest.raises(KeyboardInterrupt):
        work()


def test_where_ctrl_c_is_ignored_it_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts().raised_when_safe():
        INTERRUPT()
