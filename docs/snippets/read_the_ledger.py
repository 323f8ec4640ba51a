"""Check and print a ledger with nothing but the standard library."""

import json
from hashlib import sha256
from pathlib import Path

PREFIX, MIDDLE = b'{"sha256":"', b'","body":'

before, number = "", 0
for path in sorted(Path(".servo/default/default/ledger/orchestration").glob("*.json")):
    data = path.read_bytes()
    claimed = data[len(PREFIX) : len(PREFIX) + 64].decode()
    body = data[len(PREFIX) + 64 + len(MIDDLE) : -1]
    assert data == PREFIX + claimed.encode() + MIDDLE + body + b"}"
    assert sha256(body).hexdigest() == claimed, f"{path.name} is damaged"
    entry = json.loads(body)
    assert (entry["seq"], entry["prev_hash"]) == (number + 1, before), "the chain is broken"
    number, before = entry["seq"], claimed
    types = [event["type"] for batch in entry["batches"] for event in batch["events"]]
    print(number, entry["ts"], ", ".join(types) or "fence")
