"""An export has its name when it is complete, and takes the place of no file of others."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NoReturn

import pytest

from msmemscope.errors import DumpError, UsageError
from msmemscope.formats.export import export_formats
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.export_formats import EXPORT_FORMATS, ExportFormat
from msmemscope.formats.export.writing import Place, write_export
from msmemscope.formats.output_place import FOLDER_MARK, UNMARKED
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msmemscope.recording import Recording

CHOICE = ExportChoice("a run")


def small_recording() -> Recording:
    """One block."""
    trace = Trace()
    trace.malloc(100, "train.py(3): load")
    return trace.recording()


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_nothing_of_others_is_overwritten(name: str, tmp_path: Path) -> None:
    """Neither a file, nor a folder, nor a link that leads nowhere; and links are not followed if one insists."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(UsageError, match="msmemscope did not write") as caught:
            write_export(small_recording(), name, Place(path), CHOICE)
        assert (caught.value.hint or "").startswith("name another with --output")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert (tmp_path / "file").read_bytes() == b""
    write_export(small_recording(), name, Place(tmp_path / "link", is_forced=True), CHOICE)
    assert not (tmp_path / "link").is_symlink()
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(UsageError, match="is a folder that msmemscope did not write"):
        write_export(small_recording(), name, Place(tmp_path / "folder", is_forced=True), CHOICE)


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_only_the_export_is_left(name: str, tmp_path: Path) -> None:
    """No temporary file stays, also of one that was given up; and another's file with that ending is not touched."""
    (tmp_path / "other.partial").write_text("not ours")
    (tmp_path / "export.partial").write_text("of a writer that was killed")
    write_export(small_recording(), name, Place(tmp_path / "export"), CHOICE)
    left = sorted(path.name for path in tmp_path.iterdir())
    if EXPORT_FORMATS[name].write is None:
        assert left == ["export", "export.partial", "other.partial"]  # a folder has another temporary name
    else:
        assert left == ["export", "other.partial"]


def failing_file(recording: Recording, write: Callable[[bytes | memoryview], None], choice: ExportChoice) -> NoReturn:
    """A writer that fails after some bytes."""
    del recording, choice
    write(b"x" * (3 << 20))
    message = "no more"
    raise DumpError(message)


def failing_folder(recording: Recording, folder: Path, choice: object) -> NoReturn:
    """The same of a folder, for lack of room."""
    del recording, choice
    (folder / "part").write_bytes(b"x")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "broken, message",
    [
        (ExportFormat("nothing", ".x", UNMARKED, write=failing_file), "no more"),
        (
            ExportFormat("nothing", "_x", FOLDER_MARK, write_folder=failing_folder),
            "cannot be written: No space left on device",
        ),
    ],
)
def test_what_failed_leaves_nothing(
    broken: ExportFormat, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half of a file under the final name, and none under a temporary one."""
    monkeypatch.setitem(export_formats.EXPORT_FORMATS, "broken", dataclasses.replace(broken))
    with pytest.raises(DumpError, match=message):
        write_export(small_recording(), "broken", Place(tmp_path / "export"), CHOICE)
    assert list(tmp_path.iterdir()) == []


def test_every_format_has_one_writer_and_its_own_ending() -> None:
    """A format is one line of the table; without -o, no two write to the same name."""
    assert all((one.write is None) != (one.write_folder is None) for one in EXPORT_FORMATS.values())
    endings = [one.suffix for one in EXPORT_FORMATS.values()]
    assert len(set(endings)) == len(endings)
