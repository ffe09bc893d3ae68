"""Results that cannot be written: the message has the system's reason, and the option that names another place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

_ON_READ_ONLY_DISK = 'mount -t tmpfs -o ro none "$1" || exit 125; cd "$1"; shift; exec "$@"'


@pytest.mark.parametrize(
    "line, option",
    [
        (["true"], "--output"),
        (["compare", "{run}", "{run}"], "--output"),
        (["report", "{run}"], "-o"),
        (["export", "{run}", "--to=csv"], "--output"),
        (["export", "{run}", "--to=archive"], "--output"),
        (["bug-report", "{run}"], "--output"),
        (["cluster", "{run}", "--no-cache", "-o", "x.html"], "-o"),
        (["cluster", "{run}", "--no-cache", "--summaries=x"], "--summaries"),
        (["analyze", "operators", "{run}", "--csv=x.csv"], "--csv"),
    ],
)
def test_a_read_only_folder(line: list[str], option: str, tmp_path: Path) -> None:
    """Nothing is read before that is known: stdout stays empty."""
    run = write_run(tmp_path / "runs")
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed, so that a read-only disk cannot be made without root")
    prefix = ["unshare", "--map-root-user", "--mount", "bash", "-c", _ON_READ_ONLY_DISK, "disk", str(disk)]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk cannot be mounted here")
    words = [word.format(run=run) for word in line]
    result = subprocess.run(
        [*prefix, sys.executable, "-m", "msmemscope", *words], capture_output=True, text=True, check=False
    )
    assert result.returncode in {1, 2}
    assert result.stdout == ""
    message, _, hint = result.stderr.partition("\nhint: ")
    assert "Read-only file system" in message
    assert hint.endswith(f" with {option}\n")
