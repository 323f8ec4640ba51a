"""Derived ids, computed by hand and compared with what Servo computes."""

import hmac
import json
from base64 import b32encode
from hashlib import sha256

from servo.core import ids

TENANT, WORKSPACE = ids.TenantId("acme"), ids.WorkspaceId("prod")


def spelled(prefix: str, digest: bytes) -> str:
    """The prefix and the first 16 bytes in base32: lower case, no padding, 26 characters."""
    return prefix + b32encode(digest[:16]).decode().rstrip("=").lower()


def listed(*parts: str | int) -> bytes:
    """A list as canonical JSON."""
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode()


def hashed(prefix: str, *parts: str | int) -> str:
    """The hash of a canonical JSON list."""
    return spelled(prefix, sha256(listed(*parts)).digest())


salt = bytes(32)
run = ids.run_id(salt, TENANT, WORKSPACE, ids.RunKey("daily:2026-01-31"))
attempt = ids.attempt_id(run, ids.TaskKeyStr("raw/orders:materialize"), 1)
message = ids.queue_message_name(TENANT, WORKSPACE, attempt, 2)
backfill = ids.backfill_id(TENANT, WORKSPACE, "request-1")

by_hand = {
    run: spelled("run_", hmac.digest(salt, b"acme:prod:daily:2026-01-31", "sha256")),
    attempt: "att_" + sha256(listed("attempt", run, "raw/orders:materialize", 1)).hexdigest()[:32],
    message: hashed("d_", "delivery", TENANT, WORKSPACE, attempt, 2),
    backfill: hashed("bf_", "backfill", TENANT, WORKSPACE, "request-1"),
}
for derived, computed in by_hand.items():
    print(derived, "as computed" if derived == computed else f"and not {computed}")
if any(derived != computed for derived, computed in by_hand.items()):
    raise SystemExit("this page is wrong")
