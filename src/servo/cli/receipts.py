"""What became of a request, as a command says it and exits with.

0    applied
4    refused, with the workspace's reason (raised as `Conflict`)
8    queued: a leader that cannot be reached has not taken it yet
"""

from servo.cli.output import console
from servo.workspace.receipt import Receipt

QUEUED = 8


def tell_receipt(receipt: Receipt, done: str) -> int:
    """Say what was done, or that it is queued; the exit code of the command."""
    if receipt.queued:
        console().print(f"Queued: {receipt.reason}. It stays in the inbox until a leader takes it.")
        return QUEUED
    console().print(f"{done} (already done before)" if receipt.repeated else done)
    return 0
