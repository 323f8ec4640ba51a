"""What a process prints is redacted once it has read a secret, and goes nowhere else before."""

import subprocess
import sys
from textwrap import dedent

import pytest

from servo.processes.redacted_output import redacted_prints
from servo.sdk.resources.redaction import Redaction

BEGIN = """
import os, subprocess, sys
from servo.processes.redacted_output import RedactedOutput
from servo.sdk.resources.redaction import hidden
os.dup2(2, 1)
output = RedactedOutput(hidden())
"""


def printed(code: str) -> str:
    """What a process with redacted output shows."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + dedent(code)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stderr


def test_output_of_every_kind_is_redacted_and_in_order() -> None:
    shown = printed("""
        print("canary before anybody read it")
        hidden().add("canary")
        print("printed canary", flush=True)
        print("to stderr canary", file=sys.stderr)
        subprocess.run(["echo", "from a process canary"])
        os.write(1, b"can")
        os.write(2, b"ary in two parts\\n")
        os.write(1, b"unfinished canary")
        output.finish()
        os._exit(0)
    """)
    assert shown.splitlines() == [
        "canary before anybody read it",
        "printed ***",
        "to stderr ***",
        "from a process ***",
        "*** in two parts",
        "unfinished ***",
    ]


def test_a_process_without_secrets_prints_straight_away() -> None:
    assert printed("os.write(2, b'as it is'); os._exit(7 - 7)") == "as it is"


def test_a_drained_process_may_be_killed() -> None:
    shown = printed("""
        hidden().add("canary")
        print("printed canary")
        output.drain()
        os._exit(0)
    """)
    assert shown == "printed ***\n"


def test_long_lines_are_shown_whole() -> None:
    shown = printed("""
        hidden().add("canary")
        for n in range(300):
            os.write(1, b"x" * 999 + b"canary")
        output.finish()
        os._exit(0)
    """)
    assert shown == ("x" * 999 + "***") * 300


def test_nothing_is_redirected_once_it_has_finished() -> None:
    shown = printed("""
        output.finish()
        hidden().add("canary")
        os.write(2, b"canary")
        os._exit(0)
    """)
    assert shown == "canary"


def test_prints_of_a_block_are_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    known = Redaction()
    known.add("canary")
    with redacted_prints(known):
        _ = sys.stdout.write("a can")
        _ = sys.stdout.write("ary\n")
        _ = sys.stderr.write("another canary")
        assert not sys.stdout.isatty()
    _ = sys.stdout.write("outside: canary\n")
    found = capsys.readouterr()
    assert (found.out, found.err) == ("a ***\noutside: canary\n", "another ***")
