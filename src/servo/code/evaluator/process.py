"""An evaluator process: imports the user's code once and answers requests.

    python -m servo.code.evaluator.process SOCKET

Schedules, sensors and plans need the user's code, which may hang, crash or fill the memory. So it
is imported here and never in the leader. The caller kills this process when an answer takes too
long, and starts another; this process ends when its caller ends.
"""

import logging
import os
import signal
import socket
import sys
import threading
from functools import cache
from typing import Any

import msgspec

from servo.code.evaluator.answering import answer_to
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation, told
from servo.code.evaluator.messages import Evaluated, EvaluatorAnswer, Started, questions
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.redacted_answers import redacted_answer
from servo.code.loader import load_location
from servo.code.process_setup import RECEIVE_BYTES, ProcessSetup, open_instance
from servo.errors import Invalid
from servo.processes.asset_log import LOG_FORMAT, asset_log
from servo.processes.descendants import MARK
from servo.processes.frames import Frames, framed
from servo.processes.lifetime import die_with
from servo.processes.redacted_output import RedactedOutput
from servo.sdk.resources.environment import set_environment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.secrets import set_secrets
from servo.workspace.composition import open_to_read


class EvaluatorSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to an evaluator: where everything is, and what run ids derive from."""

    setup: ProcessSetup
    salt: bytes


def main() -> int:
    """Serve the process on the other end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    asker = socket.socket(fileno=int(sys.argv[1]))
    asker.set_inheritable(False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # standard output belongs to the caller
    output = RedactedOutput(hidden())
    ends = (asker.fileno(), os.environ.get(MARK, ""))
    threading.Thread(target=die_with, args=ends, daemon=True).start()
    try:
        for place in received(asker, msgspec.msgpack.Decoder(EvaluatorSetup)):
            return _serve(asker, place, output)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the caller has ended
    finally:
        output.finish()
    return 0


def _serve(asker: socket.socket, place: EvaluatorSetup, output: RedactedOutput) -> int:
    try:
        loaded = open_location(place)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code is imported here
        output.drain()
        _send(asker, redacted_answer(Started(error=told(error))))
        return 1
    _send(asker, Started())
    for question in received(asker, questions):
        answer = answer_to(loaded, question)
        output.drain()  # the receiver of the answer may end this process
        _send(asker, answer)
    return 0


def open_location(place: EvaluatorSetup) -> LoadedLocation:
    """Import the code, and put everything that an evaluation needs at hand."""
    setup = place.setup
    set_environment(os.environ)
    project = load_location(setup.location)
    set_secrets(project.secrets)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
    world = open_to_read(setup.address.store)
    records = PlanStore(
        store=world.store,
        paths=setup.address.paths,
        salt=place.salt,
        location=setup.location.name,
    )
    around = EvaluatorEnvironment(
        clock=world.clock,
        entropy=world.entropy,
        log=asset_log(),
        environ=os.environ,
        instance=cache(lambda: open_instance(setup)),
    )
    return LoadedLocation(project, records, around)


def received(asker: socket.socket, decoder: "msgspec.msgpack.Decoder[Any]") -> Any:
    """Messages as they come, until the other side hangs up."""
    frames = Frames(decoder)
    while data := asker.recv(RECEIVE_BYTES):
        yield from frames.feed(data)


def as_sent(answer: EvaluatorAnswer) -> bytes:
    """An encoded answer; an error instead if it holds text that cannot be encoded."""
    try:
        return msgspec.msgpack.encode(answer)
    except UnicodeEncodeError as error:
        wrong = Invalid(
            f"the answer contains invalid text: {error}",
            remedy="for names of files, use os.fsencode(name).decode(errors='replace')",
        )
        return msgspec.msgpack.encode(Evaluated(error=told(wrong)))


def _send(asker: socket.socket, answer: EvaluatorAnswer) -> None:
    asker.sendall(framed(as_sent(answer)))


if __name__ == "__main__":
    _code = main()
    os._exit(_code)  # do not wait for threads that user code left running
