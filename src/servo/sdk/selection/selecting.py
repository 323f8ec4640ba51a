"""The assets that a command is about, as people name them."""

from collections.abc import Sequence

from servo.core.keys import AssetKey
from servo.errors import NotFound
from servo.sdk.definitions.project import Project
from servo.sdk.selection.selection import AssetSelection


def selected(project: Project, select: Sequence[str]) -> list[AssetKey]:
    """What these selections choose together; `NotFound` if that is nothing."""
    found = AssetSelection.from_coercible(list(select)).resolve(project)
    if not found:
        raise NotFound(
            f"no asset is selected by {' '.join(select)}",
            remedy="see `servo list` for the assets of the project",
        )
    return found
