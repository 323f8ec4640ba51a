"""What a recorded tree of a condition says, in plain words."""

import msgspec

from servo.core.automation.trees import Tree

SAME_PARTITION = "all of it is true of the same partition"


def read_tree(text: str) -> Tree | None:
    """The tree that was recorded as this text; None if there is none, or none that can be read."""
    try:
        return msgspec.json.decode(text, type=Tree) if text else None
    except msgspec.DecodeError:
        return None


def named(tree: Tree) -> str:
    """A part of a condition, with the asset or check that it is about if it is another."""
    check = f" at its check {tree.check}" if tree.check else ""
    return f"{tree.label}{check}{f' of {tree.asset}' if tree.asset else ''}"


def truth(tree: Tree) -> str:
    """Whether a part is true, or of how many partitions."""
    if tree.of == 0:
        return "there are no partitions"
    if tree.true in (0, tree.of):
        word = "true" if tree.true else "false"
        return word if tree.of == 1 else f"{word} of all {tree.of:,}"
    shown = f", number {tree.partitions}" if tree.partitions else ""
    return f"true of {tree.true:,} of {tree.of:,}{shown}"


def lacking(tree: Tree) -> list[str]:
    """What would have to become true, or no longer be, for the condition to be true of something.

    Nothing, if it is.
    """
    if tree.true:
        return []
    if tree.of == 0:
        return ["there is a partition of it"]
    return _lacking(tree, wanted=True) or [SAME_PARTITION]


def _lacking(tree: Tree, *, wanted: bool) -> list[str]:
    """Parts that are not as they are wanted for any partition."""
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
