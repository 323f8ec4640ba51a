"""The assets that a command selects."""

from collections.abc import Sequence

from servo.core.keys import AssetKey
from servo.errors import NotFound
from servo.sdk.definitions.project import Project
from servo.sdk.selection.selection import AssetSelection


def selected(project: Project, select: Sequence[str]) -> list[AssetKey]:
    """The assets that any of these selections includes; `NotFound` if there are none."""
    found = AssetSelection.from_coercible(list(select)).resolve(project)
    if not found:
        raise NotFound(
            f"no asset is selected by {' '.join(select)}",
            remedy="see `servo list` for the assets of the project",
        )
    return found
