"""The messages between a pool and its worker processes, and their framing.

A message is a length in four bytes and MessagePack. Either side may die at any byte: the other sees
the end of the stream, never half a message.
"""

import msgspec

from servo.leader.assignments import Assignment, TaskResult
from servo.processes.frames import framed


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The worker has imported the user's code and is ready."""

    pid: int


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The worker could not import the user's code."""

    message: str


FromWorker = Ready | Broken | TaskResult

_encoder = msgspec.msgpack.Encoder()
to_worker = msgspec.msgpack.Decoder(Assignment)
from_worker = msgspec.msgpack.Decoder(FromWorker)


def frame(message: Assignment | FromWorker) -> bytes:
    """A message as bytes on the wire."""
    return framed(_encoder.encode(message))
