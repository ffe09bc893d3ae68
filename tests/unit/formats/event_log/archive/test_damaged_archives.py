"""Archives that are cut off, changed or made up by somebody: one line that says so, and no more memory than the file can mean."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msmemscope.cli.main import main
from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.archive.archive_writer import write_archive
from msmemscope.formats.event_log.archive.byte_tables import write_table
from msmemscope.formats.event_log.archive.contents import BLOCK_ROWS, DESCRIPTION, MIME_TYPE_MEMBER
from msmemscope.formats.reading import load
from tests.fakes.event_log_builder import EventLogBuilder
from tests.support.limited import run_limited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVENTS = "events/000000.arrow"
DEFINITIONS = "definitions/little/000000.arrow"
FRAMES = "native_frames/000000.arrow"


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    """A sound archive, with something of everything."""
    builder = EventLogBuilder(tmp_path / "run", segment_bytes=0)
    stack = builder.native_stack(0x1010)
    builder.fact("argument", "train.py")
    for number in range(20):
        block = builder.malloc(512 * number, 512, native_stack_id=stack, name_id=builder.string("an operator"))
        builder.free(block, 512 * number, 512)
    written = bytearray()
    write_archive(Capture(builder.write()), written.extend)
    return bytes(written)


def changed(
    content: bytes, name: str, made: Callable[[bytes], bytes | None], method: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive with another member, or without it; the checksums are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(out, "w") as archive:
        for entry in given.infolist():
            member = given.read(entry)
            if entry.filename == name:
                new = made(member)
                if new is None:
                    continue
                member = new
            archive.writestr(zipfile.ZipInfo(entry.filename), member, method if entry.filename == name else None)
    return out.getvalue()


def described(content: bytes, **values: Any) -> bytes:
    """An archive with another description."""
    return changed(content, DESCRIPTION, lambda text: json.dumps({**json.loads(text), **values}).encode())


def refusal(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> str:
    """The words of a verb about a file: one line, and perhaps a hint."""
    path = tmp_path / "run.msmemscope"
    path.write_bytes(content)
    assert main(["stats", str(path)]) in {1, 2}
    captured = capsys.readouterr()
    assert captured.out == ""
    error, *hints = captured.err.splitlines()
    assert error.startswith("msmemscope: error: ")
    assert len(hints) <= 1
    assert all(hint.startswith("hint: ") for hint in hints)
    return error


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"version": 2}, "it has archive version 2; this msmemscope reads version 1"),
        ({"version": None}, "it has archive version None"),
        ({"events": 1 << 40}, "claim to be"),
        ({"events": 41}, f"{EVENTS} in it: it does not hold 64 columns of 41 bytes"),
        ({"events": BLOCK_ROWS + 40}, f"{EVENTS} in it: it does not hold 64 columns of {BLOCK_ROWS} bytes"),
        ({"events": -1}, "says events: -1"),
        ({"events": True}, "says events: True"),
        ({"events": "x" * 1000}, "says events: 'xxx"),
        ({"definitions_little": 10**300}, "claim to be"),
        ({"definitions_little": 7}, f"{DEFINITIONS} in it: it does not hold 1 columns of 7 bytes"),
        ({"definitions_big": 7}, "definitions/big/000000.arrow is missing in it"),
        ({"native_frames": 1 << 25}, f"{FRAMES} in it: it does not hold 1 columns of {1 << 18} bytes"),
        ({"problems": [1]}, "says problems: [1]"),
        ({"capture": "../../etc"}, "says capture: '../../etc'"),
        ({"capture": ".."}, "says capture: '..'"),
        ({"capture": "a\0b"}, "says capture: 'a\\x00b'"),
        ({"capture": "a\udcff"}, "says capture: 'a\\udcff'"),
        ({"capture": "x" * 256}, "says capture: 'xxx"),
    ],
)
def test_a_description_that_lies(
    values: dict[str, Any], said: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parts that a description claims must be there, and possible."""
    assert said in refusal(tmp_path, described(content, **values), capsys)


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        (DESCRIPTION, lambda _: None, "archive.json is missing in it"),
        (DESCRIPTION, lambda _: b"[", "archive.json is no JSON"),
        (DESCRIPTION, lambda _: b"[" * 100_000, "archive.json is no JSON"),
        (DESCRIPTION, lambda _: b"[]", "archive.json is no object"),
        ("process.header", lambda _: None, "process.header is missing in it"),
        ("process.header", lambda _: bytes(10_000), "process.header in it cannot be so long: 10000 bytes"),
        ("process.header", lambda header: b"X" + header[1:], "process.header is not the header of an event log"),
        (EVENTS, lambda _: None, f"{EVENTS} is missing in it"),
        (EVENTS, lambda _: b"", f"{EVENTS} in it: a message begins in another way"),
        (EVENTS, lambda stream: stream[:-9], f"{EVENTS} in it: "),
        (EVENTS, lambda _: write_table({"x": np.zeros(40, np.uint8)}), "it does not hold 64 columns of 40 bytes"),
        (FRAMES, lambda stream: _with_text(stream, b'{"a": 1}'), "is damaged: native_frames"),
        (FRAMES, lambda stream: _with_text(stream, b'[[[1],[2],"x"]]'), "is damaged: native_frames"),
        (MIME_TYPE_MEMBER, lambda _: b"application/epub+zip", "a ZIP archive of 6 files without a data.pkl"),
    ],
)  # fmt: skip
def test_members_that_are_no_such(
    name: str,
    made: Callable[[bytes], bytes | None],
    said: str,
    content: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Missing, too long, or something else."""
    assert said in refusal(tmp_path, changed(content, name, made), capsys)


def _with_text(stream: bytes, text: bytes) -> bytes:
    from msmemscope.formats.event_log.archive.byte_tables import read_table

    size = next(size for size in range(1, 1000) if _holds(stream, size))
    assert len(read_table(stream, ["bytes"], size)["bytes"]) == size
    return write_table({"bytes": np.frombuffer(text.ljust(size), dtype=np.uint8)})


def _holds(stream: bytes, size: int) -> bool:
    from msmemscope.formats.event_log.archive.byte_tables import ByteTableError, read_table

    try:
        read_table(stream, ["bytes"], size)
    except ByteTableError:
        return False
    return True


def test_frames_of_other_types_are_left_out(content: bytes, tmp_path: Path) -> None:
    """Texts are texts; without one, the address is looked up as in a folder."""
    made = changed(content, FRAMES, lambda stream: _with_text(stream, b"[[0,4112,5]]"))
    path = tmp_path / "run.msmemscope"
    path.write_bytes(made)
    assert load(path).native_stacks["text"].to_list() == ["[0x1010]\n"]


def test_a_compressed_member_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It could unpack to anything: ours are stored as they are."""
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        made = changed(content, EVENTS, lambda _: bytes(1 << 24), method)
        assert f"{EVENTS} in it cannot be so long" in refusal(tmp_path, made, capsys)


def test_a_long_list_of_members_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading it alone would take memory."""
    out = io.BytesIO(content)
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(5000):
            archive.writestr(f"{number:0200}", b"")
    assert "its list of members is longer than it can be" in refusal(tmp_path, out.getvalue(), capsys)


def test_cut_off_anywhere(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy that did not come to its end."""
    for size in (0, 10, 60, 61, 100, len(content) // 2, len(content) - 1):
        error = refusal(tmp_path, content[:size], capsys)
        assert any(word in error for word in ("is damaged", "is empty", "cannot be read: "))


def test_any_byte_changed(content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every member has a checksum: it is read as it was written, or not at all."""
    path = tmp_path / "run.msmemscope"
    path.write_bytes(content)
    sound = load(path)
    chance = random.Random(3)  # noqa: S311 - not for secrets
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[chance.randrange(60, len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            found = load(path)
        except EventLogError as error:
            assert "is damaged" in error.message  # noqa: PT017 - of some only
            refused += 1
        else:
            assert found.events.equals(sound.events)
    assert refused > 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("rows", [1 << 30, (1 << 63) - 1])
def test_no_memory_for_what_is_claimed(rows: int, content: bytes, tmp_path: Path) -> None:
    """A record batch that claims to be huge, everywhere where it says so, with right checksums."""
    size, lie = (40).to_bytes(8, "little"), rows.to_bytes(8, "little")
    path = tmp_path / "run.msmemscope"
    path.write_bytes(changed(content, EVENTS, lambda stream: stream.replace(size, lie)))
    result = run_limited(["analyze", "peak", path])
    assert result.returncode == 1
    assert f"{EVENTS} in it: it does not hold 64 columns of 40 bytes" in result.stderr
    assert "Traceback" not in result.stderr
