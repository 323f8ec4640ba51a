"""What tests of whole processes share."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servo.testing.machines import Gates


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    """Gates for the assets of one test, all of them closed."""
    return Gates(tmp_path / "gates")


@pytest.fixture
def mount_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system in memory with these options of tmpfs, once."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"NOT TESTED on a full disk: may not mount one ({done.stderr.strip()})")
        return folder

    yield mount
    if folder.is_mount():
        # Lazily: a store closes its folders when it is collected, which may be later.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - wherever it is
