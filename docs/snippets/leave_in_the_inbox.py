"""Request a run without a leader: leave a batch in the inbox, as JSON."""

import json
from pathlib import Path
from threading import Event

from servo.testing.leader import open_service

batch = {
    "id": "from-a-shell-script",
    "actor": "cron",
    "events": [
        {
            "type": "RunRequested",
            "run_id": "run_from_inbox",
            "run_key": "inbox:1",
            "request_fingerprint": "v1",
        },
        {"type": "PlanCreated", "run_id": "run_from_inbox", "fingerprint": "empty"},
    ],
}
inbox = Path(".servo/default/default/inbox/orchestration")
inbox.mkdir(parents=True, exist_ok=True)
name = "01KG5R5Q5N7V0000000000000X.json"
private = Path(".servo/.tmp") / name  # the inbox must hold whole objects only
private.write_text(json.dumps(batch))
waiting = private.rename(inbox / name)

with open_service(".servo"):
    while waiting.exists():  # deleted once it is in the ledger
        Event().wait(0.05)
print("in the ledger")
