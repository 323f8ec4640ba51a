"""Where plans are stored, what run ids are made with, and for which location."""

import msgspec

from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore


class PlanStore(msgspec.Struct, frozen=True, kw_only=True):
    """Where plans are stored, what run ids are made with, and whose runs they are."""

    store: ObjectStore
    paths: Paths
    salt: bytes
    location: str = ""
