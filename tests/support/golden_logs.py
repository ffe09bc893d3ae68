"""Event logs that earlier versions wrote, see tests/golden/event_logs."""

from __future__ import annotations

import tarfile
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "event_logs"


def unpack_golden_log(name: str, folder: Path) -> Path:
    """Unpack a log, with the dump of its time as `expected.csv`; return the capture folder."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        (top,) = {member.name.partition("/")[0] for member in archive}
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # the first releases of 3.10 and 3.11
            archive.extractall(folder)  # noqa: S202 - our own archive
    return folder / top
