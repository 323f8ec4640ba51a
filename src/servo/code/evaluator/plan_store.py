"""Where plans are stored, what run ids are made with, and for which location."""

import msgspec

from servo.core.events.runs import PlanCreated, RunRequested
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.workspace.redacted_events import without_secrets
from servo.workspace.run_requests import WantedRun, run_events


class PlanStore(msgspec.Struct, frozen=True, kw_only=True):
    """Where plans are stored, what run ids are made with, and whose runs they are."""

    store: ObjectStore
    paths: Paths
    salt: bytes
    location: str = ""

    def run_events(self, wanted: WantedRun) -> tuple[RunRequested, PlanCreated]:
        """The events that request a run. A large plan is stored first, without secrets."""
        clean = msgspec.structs.replace(wanted, plan=without_secrets(wanted.plan))
        return run_events(self.store, self.paths, self.salt, clean)
