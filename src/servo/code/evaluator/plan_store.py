"""Where plans are stored, and what run ids are made with."""

import msgspec

from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore


class PlanStore(msgspec.Struct, frozen=True, kw_only=True):
    """Where plans are stored, and what run ids are made with."""

    store: ObjectStore
    paths: Paths
    salt: bytes
