"""A disk of a few MiB, to see what happens when it is full."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# In a mount namespace of its own, so that no root is needed and nothing stays mounted. Written files are copied out
# before the namespace ends.
_ON_SMALL_DISK = """
mount -t tmpfs -o size=SIZEk none "$1" || exit 125
disk=$1; copy=$2; shift 2
"$@"; status=$?
cp -a "$disk/." "$copy"
exit $status
"""


def small_disk(tmp_path: Path, size_kib: int) -> tuple[list[str], Path, Path]:
    """Make a disk that only the processes of one command line see; skips the test where that is not possible.

    Args:
        tmp_path: Where its folders are made.
        size_kib: How much it holds.

    Returns:
        A prefix of a command line that runs it with the disk, the disk's folder, and where its content is copied.
    """
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    copy.mkdir()
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed, so that a small disk cannot be made without root")
    script = _ON_SMALL_DISK.replace("SIZE", str(size_kib))
    prefix = [unshare, "--map-root-user", "--mount", "bash", "-c", script, "small_disk", str(disk), str(copy)]
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {probe.stderr.strip()}")
    return prefix, disk, copy
