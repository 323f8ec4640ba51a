"""Explain a recorded condition tree in plain words.

A condition such as `eager` has dozens of parts. What matters is what decided it: of parts that must
all be true, those that are not; of parts of which one suffices, the one that is. `deciding` leaves
out the others.
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from servo.core.automation.trees import Tree

SAME_PARTITION = "all of it is true of the same partition"
_MOST_WORDS = 80
_CRON = re.compile(r"\(cron_schedule='(.*)', cron_timezone='(.*)'\)$")
_KNOWN = ("any_deps_updated", "any_deps_missing", "any_deps_in_progress", "all_deps_updated_since")
_JOINED = {"and": "and", "or": "or", "any_downstream_conditions": "or"}


def read_tree(text: str) -> Tree | None:
    """The tree of a recorded string; None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(text, type=Tree) if text else None
    except msgspec.DecodeError:
        return None


# --- names ----------------------------------------------------------------------------------------


def named(tree: Tree) -> str:
    """A part of a condition, with its asset or check if that is a different one."""
    check = f" at its check {tree.check}" if tree.check else ""
    return f"{title(tree)}{check}{f' of {tree.asset}' if tree.asset else ''}"


def title(tree: Tree) -> str:
    """The name of a part: its label, or what it consists of.

    The operands of a combined part are listed below it, so the operator is enough.
    """
    told = _plain(tree)
    if told is not None and len(told) <= _MOST_WORDS:
        return told
    if told is not None and tree.kind in _JOINED:
        return "all of" if tree.kind == "and" else "any of"
    return _CRON.sub(r"(\1, \2)", tree.label.removesuffix("()"))


def _plain(tree: Tree) -> str | None:
    """What an unlabelled part says; None if it has a label."""
    parts = [title(part) for part in tree.children]
    labels = [part.label for part in tree.children]
    if not parts or tree.more:
        return None
    match tree.kind:
        case "and" | "or" if tree.label == f"({_SIGNS[tree.kind].join(labels)})":
            return f" {tree.kind} ".join(_grouped(part) for part in tree.children)
        case "not" if tree.label == f"~{labels[0]}":
            return f"not {_grouped(tree.children[0])}"
        case "newly_true" if tree.label == f"{labels[0]}.newly_true()":
            return f"{_grouped(tree.children[0])} newly true"
        case "since" if tree.label == f"{labels[0]}.since({labels[-1]})":
            return f"{parts[0]}, since {parts[-1]}"
        case _:
            return None


_SIGNS = {"and": " & ", "or": " | "}


def _grouped(tree: Tree) -> str:
    """A part as an operand: in brackets if it is combined itself."""
    several = tree.kind in _JOINED or tree.kind == "since"
    told = title(tree)
    return f"({told})" if several and _plain(tree) is not None else told


def truth(tree: Tree) -> str:
    """Whether a part is true, or of which partitions."""
    if tree.of == 0:
        return "there are no partitions"
    if tree.true in (0, tree.of):
        word = "true" if tree.true else "false"
        return word if tree.of == 1 else f"{word} of all {tree.of:,}"
    shown = f", number {tree.partitions}" if tree.partitions else ""
    return f"true of {tree.true:,} of {tree.of:,}{f': {tree.keys}' if tree.keys else shown}"


# --- what decided it ------------------------------------------------------------------------------


def count(tree: Tree) -> int:
    """The number of parts of a tree, including those that were not recorded."""
    return 1 + tree.more + sum(count(part) for part in tree.children)


def deciding(tree: Tree) -> Tree:
    """The tree reduced to the parts that made it true, or that keep it from being true."""
    kept = _of_true(tree) if tree.true else _of_false(tree)
    parts = tuple(deciding(part) for part in kept)
    label = title(tree)
    if _is_well_known(tree):
        about = ", ".join(part.asset for part in parts if part.asset)
        label, parts = f"{label} ({about})" if about else label, ()
    elif _says_it_all(tree) and not any(part.children for part in parts):
        parts = ()
    return replace(tree, label=label, children=parts, more=tree.more if parts else 0)


def _is_well_known(tree: Tree) -> bool:
    """Whether a part has a name that says what it is; then it is enough to know of which assets."""
    return tree.label.startswith(_KNOWN)


def _of_true(tree: Tree) -> Sequence[Tree]:
    """The parts that make a condition true; a false one has none."""
    match tree.kind:
        case "and":
            return tree.children
        case "not" | "newly_true":
            return ()
        case "since":
            return _true(_waited_for(tree.children[0]))
        case _:
            return () if _is_every(tree) else _true(tree.children)


def _of_false(tree: Tree) -> Sequence[Tree]:
    """The parts that keep a condition from being true."""
    match tree.kind:
        case "not" | "or":
            return tree.children
        case "since":
            return _waited_for(tree.children[0])
        case "and":
            return _false(tree.children) or _partly(tree.children)
        case _:
            return _false(tree.children) if _is_every(tree) else ()


def _says_it_all(tree: Tree) -> bool:
    """Whether a part is called by what it is made of, and that is as the whole of it is."""
    told = _plain(tree)
    if told is None or len(told) > _MOST_WORDS:
        return False
    if tree.kind == "since":
        return not tree.true or not tree.children[0].children
    return tree.kind == ("and" if tree.true else "or")


def _waited_for(trigger: Tree) -> Sequence[Tree]:
    """What a `since` waits for: the parts of it, if one of them would be enough."""
    if trigger.kind == "or" and _plain(trigger) is not None:
        return trigger.children
    return (trigger,)


def _is_every(tree: Tree) -> bool:
    """Whether all dependencies or checks must match, rather than any."""
    return tree.kind in ("deps", "checks") and tree.label.startswith("all_")


def _true(parts: Sequence[Tree]) -> list[Tree]:
    return [part for part in parts if part.true]


def _false(parts: Sequence[Tree]) -> list[Tree]:
    return [part for part in parts if not part.true]


def _partly(parts: Sequence[Tree]) -> list[Tree]:
    return [part for part in parts if part.true < part.of]


# --- what it lacks --------------------------------------------------------------------------------


def lacking(tree: Tree) -> list[str]:
    """What would have to become true, or false, for the condition to be true of something.

    Empty if it is true.
    """
    if tree.true:
        return []
    if tree.of == 0:
        return ["there is a partition of it"]
    return _lacking(tree, wanted=True) or [SAME_PARTITION]


def was_first(tree: Tree) -> bool:
    """Whether this was the first evaluation of the condition."""
    if tree.kind == "initial_evaluation":
        return tree.true > 0
    return any(was_first(part) for part in tree.children)


def _lacking(tree: Tree, *, wanted: bool) -> list[str]:
    """The parts that do not have the wanted value for any partition."""
    if (tree.true > 0) if wanted else (tree.true < tree.of):
        return []
    if tree.kind == "not":
        return [told for part in tree.children for told in _lacking(part, wanted=not wanted)]
    if tree.kind == "and" and wanted:
        return [told for part in tree.children for told in _lacking(part, wanted=True)]
    if wanted:
        trigger = tree.children[:1] if tree.kind == "since" else ()
        deeper = [told for part in trigger for told in _lacking(part, wanted=True)]
        return deeper or [f"{named(tree)} becomes true"]
    about = ", ".join(part.asset for part in tree.children if part.asset and part.true)
    return [f"{named(tree)} is no longer true{f' ({about})' if about else ''}"]
