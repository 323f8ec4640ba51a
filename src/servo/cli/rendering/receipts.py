"""What became of a request, as a command says it and exits with.

0    applied
4    refused, with the workspace's reason (raised as `Conflict`)
8    queued: a leader that cannot be reached has not taken it yet
"""

from typing import Protocol

from servo.cli.rendering.output import console, emit_json
from servo.workspace.receipt import Receipt

QUEUED = 8


class HasReceipt(Protocol):
    """What an operation that writes returns."""

    @property
    def receipt(self) -> Receipt:
        """What became of the request."""
        ...


def tell_receipt(receipt: Receipt, done: str) -> int:
    """Say what was done, or that it is queued; the exit code of the command."""
    if receipt.queued:
        console().print(
            f"Queued: {receipt.reason}. It stays in the inbox until a leader processes it."
        )
        return QUEUED
    console().print(f"{done} (already requested earlier)" if receipt.repeated else done)
    return 0


def tell_change(found: HasReceipt, done: str, *, json_: bool) -> int:
    """Print the result of an operation that writes, as JSON or in words; the exit code."""
    if not json_:
        return tell_receipt(found.receipt, done)
    emit_json(found)
    return QUEUED if found.receipt.queued else 0
