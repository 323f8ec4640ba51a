"""The stored state of a condition between two evaluations, as a string.

    {"space":"daily:2024-01-01","requested":"364","nodes":{"6c1f0a…":"0-363"},"spaces":{…}}

Bitmaps are stored as ranges; one with very many ranges is packed instead. The state of a removed
condition is dropped; a new one has none. If the numbers of partitions changed their meaning, their
state is invalid: for the asset itself the whole condition starts over, for another asset only the
part about it.
"""

import zlib
from base64 import b85decode, b85encode

import msgspec

from servo.core import bitmaps
from servo.core.automation.assets import Graph
from servo.core.automation.compiling import CompiledCondition, Node
from servo.errors import Corrupt

_MOST_RANGES = 1_000
_PACKED = "z:"
_BYTE = 8


class StoredCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored state of the condition of an asset."""

    space: str = ""
    requested: str = ""
    nodes: dict[str, str] = {}
    spaces: dict[str, str] = {}


def remembered(plan: CompiledCondition, graph: Graph) -> str:
    """The state of a condition as it is stored."""
    kept = [(node, text) for node in plan.nodes if (text := _text(node)) is not None]
    about = sorted({node.key[0] for node, _ in kept} - {plan.asset.key})
    told = {key: graph.assets[key].space.fingerprint for key in about}
    stored = StoredCondition(
        space=plan.asset.space.fingerprint,
        requested=packed(plan.root.value),
        nodes=dict(sorted((node.name, text) for node, text in kept)),
        spaces={key: fingerprint for key, fingerprint in told.items() if fingerprint},
    )
    return msgspec.json.encode(stored).decode()


def recall(plan: CompiledCondition, text: str, graph: Graph) -> None:
    """Restore a stored state; if it is about other partitions, start over."""
    stored = read(text)
    asked = plan.asset.space.moved(stored.space, unpacked(stored.requested))
    if asked is None:
        return
    plan.initial = plan.changed = plan.moved = False
    plan.previous = plan.root.value = asked
    for node in plan.nodes:
        found = stored.nodes.get(node.name)
        if found is None:
            continue
        if node.kind == "code_version_changed":
            node.memory, node.text = found[1:], found
            continue
        of = node.key[0]
        was = stored.space if of == plan.asset.key else stored.spaces.get(of, "")
        held = graph.assets[of].space.moved(was, unpacked(found))
        if held is None:
            continue
        if node.kind == "newly_true":
            node.memory = held
        else:
            node.value = held


def read(text: str) -> StoredCondition:
    """A stored state."""
    try:
        return msgspec.json.decode(text, type=StoredCondition)
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"the state of an automation condition cannot be read: {error}",
            remedy="report this as a bug",
        ) from error


def packed(bits: int) -> str:
    """A set as a string that is short even with very many ranges."""
    if (bits & ~(bits << 1)).bit_count() <= _MOST_RANGES:
        return bitmaps.to_text(bits)
    data = bits.to_bytes((bits.bit_length() + _BYTE - 1) // _BYTE, "little")
    return _PACKED + b85encode(zlib.compress(data)).decode()


def unpacked(text: str) -> int:
    """The set that was stored as this text."""
    if not text.startswith(_PACKED):
        return bitmaps.from_text(text)
    try:
        return int.from_bytes(zlib.decompress(b85decode(text[len(_PACKED) :])), "little")
    except (ValueError, zlib.error) as error:
        raise Corrupt(
            "a set of partitions cannot be read", remedy="report this as a bug"
        ) from error


def _text(node: Node) -> str | None:
    """What is remembered of a node, if anything; made once for as long as it stays the same."""
    if node.kind == "since" and not node.value:
        return None
    if node.text is None and node.name:
        held = node.value if node.kind == "since" else node.memory
        node.text = packed(held) if isinstance(held, int) else f"={held}"
    return node.text
