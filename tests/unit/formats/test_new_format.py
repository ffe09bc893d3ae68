"""A new format is a folder with its reader, and one line in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msmemscope
from msmemscope.cli.main import main
from msmemscope.formats.file_formats import FILE_FORMATS, FileFormat
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from msmemscope.recording import Recording

MAGIC = b"sizes: "


def recordings_of_sizes(files: Sequence[Path], given: Path, reason: str | None = None) -> tuple[Recording, ...]:
    """Read a file of sizes of blocks: one process, each block allocated and kept."""
    del given, reason
    trace = Trace()
    for size in files[0].read_bytes().removeprefix(MAGIC).split():
        trace.malloc(int(size), "train.py(3): load")
    return (trace.recording(),)


LINE = FileFormat(lambda start: start.startswith(MAGIC), recordings_of_sizes)


def test_a_new_format_is_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then it is recognised by its content, loaded, and every question can be asked of it."""
    path = tmp_path / "whatever.dump"
    path.write_bytes(MAGIC + b"4096 1048576")
    assert main(["analyze", "peak", str(path)]) == 2
    assert "is nothing that can be analysed: it begins with b'sizes: 4096" in capsys.readouterr().err

    monkeypatch.setattr("msmemscope.formats.recognise.FILE_FORMATS", [LINE, *FILE_FORMATS])
    assert msmemscope.load(path).blocks["size"].to_list() == [4096, 1048576]
    for name in msmemscope.list_analyzers():
        assert main(["analyze", name, str(path)]) == 0
    assert "train.py(3): load" in capsys.readouterr().out
