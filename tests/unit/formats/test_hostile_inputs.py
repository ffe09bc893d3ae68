"""Files that were made to do harm: to fill memory, to take forever, or to be run. Each is refused in one sentence, at once."""

from __future__ import annotations

import csv
import gzip
import os
import pickle
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msmemscope.errors import InputError
from msmemscope.formats.reading import load, load_all
from msmemscope.formats.torch_snapshot import plain_pickle
from tests.golden.dump_inputs import HEADER, WRITERS
from tests.support.limited import run_limited
from tests.support.nightly import NIGHT

HASH_MODULUS = 2**61 - 1
"""Whole numbers whose difference is a multiple of it have one hash."""
ROW = '1,MALLOC,PTA,N/A,1,1,1,0,0x10,"{allocation_id:1,addr:0x0000000000000010,size:64}",,\n'


def keys_of_one_hash(kind: str) -> dict[Any, None]:
    """A dictionary that Python needs hours to build again."""
    if kind == "whole numbers":
        return {place * HASH_MODULUS: None for place in range(5_000)}
    if kind == "fractions":
        return {0.5 * 2.0 ** (61 * place): None for place in range(-15, 16)}
    return {(place * HASH_MODULUS % 2**64,): None for place in range(8)}


@pytest.mark.parametrize("kind", ["whole numbers", "fractions", "tuples"])
def test_keys_that_were_made_to_collide(kind: str, tmp_path: Path) -> None:
    """The hashes of numbers and of tuples are no secret."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "more": keys_of_one_hash(kind)}))
    with pytest.raises(InputError, match=r"a key is neither|more than 64 bits"):
        load(path)


def nested(kind: type, depth: int) -> Any:
    """A few bytes that are a thousand million objects when they are looked through."""
    value: Any = kind()
    for _ in range(depth):
        value = kind([value, value])
    return value


BLOCK = {"size": 512, "state": "active_allocated", "frames": []}
FRAME = {"filename": "a" * 100_000, "line": 1, "name": "f"}
ENTRY = {"action": "alloc", "addr": 512, "size": 512, "frames": []}


def segment(**fields: Any) -> dict[str, Any]:
    """A segment of a snapshot."""
    return {"device": 0, "address": 0, "total_size": 2048, "blocks": [], "frames": [], **fields}


SHARED = {
    "a state": {"segments": [segment(blocks=[{**BLOCK, "state": nested(tuple, 60)}])]},
    "a device": {"segments": [segment(device=nested(tuple, 60))]},
    "an action": {"device_traces": [[{**ENTRY, "action": nested(list, 60)}]]},
    "a file": {"device_traces": [[{**ENTRY, "frames": [{**FRAME, "filename": nested(tuple, 60)}]}]]},
    "segments": {"segments": [segment(blocks=[BLOCK] * 5_000)] * 50_000},
    "entries": {"device_traces": [[ENTRY] * 200_000] * 100},
    "frames": {"device_traces": [[{**ENTRY, "frames": [FRAME] * 100_000}]]},
    "stacks": {"device_traces": [[{**ENTRY, "frames": [FRAME] * place} for place in range(1_000 if NIGHT else 500)]]},
}


@pytest.mark.parametrize("what", SHARED)
def test_objects_that_are_referred_to_a_million_times(what: str, tmp_path: Path) -> None:
    """A pickle can refer to its own parts: a few kilobytes are then terabytes."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SHARED[what]))
    run = run_limited(["analyze", "oom", path])
    assert run.returncode == 2
    assert "is no memory snapshot" in run.stderr


def test_stacks_that_many_entries_share_are_read(tmp_path: Path) -> None:
    """As torch writes them: one list of frames for all blocks of a line, and each frame once."""
    frames = [{"filename": f"/home/me/model_{place}.py", "line": place, "name": "forward"} for place in range(60)]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"device_traces": [[{**ENTRY, "frames": frames} for _ in range(5_000)]]}))
    assert load(path).python_stacks.height == 1


def test_a_packed_snapshot_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By gzip or in an archive; one that is packed as well as snapshots are is read."""
    monkeypatch.setattr(plain_pickle, "SMALL_BYTES", 100_000)
    bomb = b"\x80\x04(" + b"]" * 3_000_000 + b"l."
    packed, archive = tmp_path / "bomb.gz", tmp_path / "bomb.zip"
    packed.write_bytes(gzip.compress(bomb))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data.pkl", bomb)
    for path in (packed, archive):
        with pytest.raises(InputError, match="as no snapshot does"):
            load(path)
    entries = [{**ENTRY, "addr": 512 * place} for place in range(1, 20_000)]
    packed.write_bytes(gzip.compress(pickle.dumps({"device_traces": [entries]})))
    assert load(packed).blocks.height == len(entries)


def test_a_way_of_packing_that_takes_any_memory_for_itself(tmp_path: Path) -> None:
    """A dictionary of LZMA can be claimed to have four gigabytes."""
    path = tmp_path / "snapshot.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("data.pkl", b"\x80\x04].")
    with pytest.raises(InputError, match="packed in an unusual way"):
        load(path)


def test_a_snapshot_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objects take many times its own size: it is refused before any of them is made."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(b"\x80\x04(" + b"]" * 1_000_000 + b"t.")
    monkeypatch.setattr(plain_pickle, "available_memory_bytes", lambda: 10_000_000)
    with pytest.raises(
        InputError, match=r"too large for this machine: it takes about 9.* MiB of memory, and 9.54 MiB are"
    ):
        load(path)


def test_numbers_beyond_all_bounds(tmp_path: Path) -> None:
    """Sizes and times that no machine has are refused; sums of others would not fit."""
    for field, value in (
        ("size", 2**62),
        ("size", -1),
        ("time_us", 2**62),
        ("time_us", -1),
        ("addr", -1),
        ("size", 1.5),
    ):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps({"device_traces": [[{**ENTRY, field: value}]]}))
        with pytest.raises(InputError, match="is no memory snapshot"):
            load(path)


def test_text_that_is_half_a_letter(tmp_path: Path) -> None:
    """Pickles and JSON can hold it, tables cannot."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"device_traces": [[{**ENTRY, "frames": [{**FRAME, "filename": "\ud800"}]}]]}))
    with pytest.raises(InputError, match="is no memory snapshot"):
        load(path)
    database = tmp_path / "dump.db"
    WRITERS["may_2026.db"](database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            """UPDATE memscope_dump SET Attr = '{"size":"64","owner":"\\ud800"}' WHERE Event = 'MALLOC'"""
        )
    assert load(database).blocks["owner"].to_list() == ["?"] * 3


def interior_page(child: int) -> bytes:
    """A page of a table whose entries all lead to one other page."""
    cells = [struct.pack(">IB", child, min(place, 127)) for place in range(400)]
    content = b"".join(cells)
    begin = 4096 - len(content)
    pointers = b"".join(struct.pack(">H", begin + 5 * place) for place in range(len(cells)))
    header = struct.pack(">BHHHBI", 5, 0, len(cells), begin, 0, child)
    return (header + pointers).ljust(begin, b"\0") + content


def test_pages_of_a_database_that_lead_to_each_other(tmp_path: Path) -> None:
    """A table of twenty kilobytes with a million million rows."""
    path = tmp_path / "dump.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=4096")
        columns = ", ".join(f'"{name}"' for name in HEADER.split(","))
        connection.execute(f"CREATE TABLE memscope_dump ({columns})")
        row = next(csv.reader([ROW]))
        connection.executemany(f"INSERT INTO memscope_dump VALUES ({','.join('?' * len(row))})", [row] * 10)
        connection.commit()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master").fetchone()
    content = bytearray(path.read_bytes())
    pages = len(content) // 4096
    leaf = bytes(content[(root - 1) * 4096 : root * 4096])
    content += leaf + interior_page(pages + 1) + interior_page(pages + 2) + interior_page(pages + 3)
    content[(root - 1) * 4096 : root * 4096] = interior_page(pages + 4)
    content[28:32] = struct.pack(">I", pages + 4)
    path.write_bytes(content)
    run = run_limited(["analyze", "oom", path])
    assert run.returncode in {0, 2}
    assert "interrupted" in run.stderr


def test_a_database_that_is_worked_out_when_it_is_read(tmp_path: Path) -> None:
    """A row of nothing can be a gigabyte then."""
    path = tmp_path / "dump.db"
    columns = ", ".join(f'"{name}"' for name in HEADER.split(",") if name != "Name")
    blob_bytes = 400_000_000 if NIGHT else 100_000_000
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'CREATE TABLE memscope_dump ({columns}, "Name" AS (hex(zeroblob({blob_bytes}))))')
        connection.execute("INSERT INTO memscope_dump (ID) VALUES (1)")
    with pytest.raises(InputError, match="generated columns"):
        load(path)


def test_a_database_whose_damage_is_no_text(tmp_path: Path) -> None:
    """SQLite quotes what it cannot read."""
    path = tmp_path / "dump.db"
    WRITERS["may_2026.db"](path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \xa5ABLE", 1))
    with pytest.raises(InputError, match="cannot be read as a database"):
        load(path)


@pytest.mark.parametrize("name", ["may_2026.csv", "may_2026.db"])
def test_a_name_of_a_file_that_is_no_text(name: str, tmp_path: Path) -> None:
    """Linux takes any bytes for a name."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + name.encode()))
    WRITERS[name](path)
    run = run_limited(["analyze", "leaks", path, "--json"])
    assert run.returncode == 0, run.stderr


LONG_LINES = {
    "letters": "x", "quotes": '"', "commas": ",", "zero bytes": "\0", "short lines in quotes": '"' + ("x" * 30 + "\n") * 31, "digits": "7",
}  # fmt: skip


@pytest.mark.parametrize(
    "content, megabytes, more",
    [
        *((content, 64, "") for content in LONG_LINES),
        *(("commas", megabytes, more) for megabytes in (1, 12) for more in ("", ",More")),
        ("short lines in quotes", 12, ",More"),
    ],
)
def test_a_long_line_of_a_dump(content: str, megabytes: int, more: str, tmp_path: Path) -> None:
    """It is reported, and the rows behind it are read; it takes neither gigabytes nor minutes."""
    path = tmp_path / "dump.csv"
    part = LONG_LINES[content].encode()
    with path.open("wb") as file:
        file.write(f"{HEADER}{more}\n{ROW[:29]}".encode())
        file.write((part * ((1 << 20) // len(part) + 1)) * megabytes)
        file.write(f"\n{ROW.rstrip()}{more}\n".replace("1", "2", 1).encode())
    run = run_limited(["analyze", "leaks", path, "--json"], memory_bytes=2 << 30)
    assert run.returncode in {0, 2}, run.stderr
    if not more:
        assert "line 2: not a row of a dump" in run.stdout


@pytest.mark.skipif(not NIGHT, reason="nightly: reads a gigabyte")
@pytest.mark.parametrize("content", ["letters", "commas", "quotes"])
def test_a_line_of_a_gigabyte(content: str, tmp_path: Path) -> None:
    """Of zeros in a sparse file, and of what makes most work."""
    path = tmp_path / "dump.csv"
    part = LONG_LINES[content].encode() * (1 << 20)
    with path.open("wb") as file:
        file.write(f"{HEADER}\n{ROW[:29]}".encode())
        for _ in range(1 << 10):
            file.write(part)
        file.write(f"\n{ROW}".encode())
    assert run_limited(["analyze", "leaks", path], memory_bytes=2 << 30).returncode == 0
    with path.open("wb") as file:
        file.write(f"{HEADER}\n{ROW[:29]}".encode())
        file.truncate(1 << 30)
    assert run_limited(["analyze", "leaks", path], memory_bytes=2 << 30).returncode == 2


def test_rows_that_never_end(tmp_path: Path) -> None:
    """Quotes out of place on every line: the end of each row is looked for, and not for long."""
    size = 500_000 if NIGHT else 250_000
    for line in ('1,A,"b\n', 'x"y"z,\n', "abc,\n", '1,MALLOC,PTA,"a"b",1,1,1,0,0x10,"{size:5}","f,\nb,\n",\n'):
        path = tmp_path / "dump.csv"
        for header in (HEADER, f"{HEADER},More"):
            path.write_text(f"{header}\n" + line * (size // len(line)), encoding="utf-8")
            assert run_limited(["analyze", "leaks", path]).returncode in {0, 2}


@pytest.mark.parametrize("name", ["may_2026.csv", "may_2026.db"])
@pytest.mark.parametrize("column", ["ID", "Timestamp(ns)"])
def test_negative_numbers_of_rows(name: str, column: str, tmp_path: Path) -> None:
    """Such a row is reported and left out; the others are read."""
    path = tmp_path / name
    WRITERS[name](path)
    whole = load(path).events
    if name.endswith(".db"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE memscope_dump SET \"{column}\" = -5 WHERE Event = 'FREE'")
    else:
        place = HEADER.split(",").index(column)
        rows = path.read_text(encoding="utf-8").split("\n")
        for number, row in enumerate(rows):
            fields = row.split(",")
            if fields[1:2] == ["FREE"]:
                fields[place] = "-5"
                rows[number] = ",".join(fields)
        path.write_text("\n".join(rows), encoding="utf-8")
    recording = load(path)
    assert len(recording.problems) == 1
    assert recording.events.filter(recording.events["kind"] != 2).height == whole.filter(whole["kind"] != 2).height


def test_one_of_several_dumps_is_damaged(tmp_path: Path) -> None:
    """Devices of a process, and processes of a folder: the others are read, and what was left out is a problem."""
    folder = tmp_path / "msmemscope_77_20240101120000_ascend"
    for device in ("0", "1"):
        (folder / f"device_{device}" / "dump").mkdir(parents=True)
    good, bad = (folder / f"device_{device}" / "dump" / "memscope_dump_1.csv" for device in ("0", "1"))
    WRITERS["may_2026.csv"](good)
    bad.write_text("Event,Event Type\n", encoding="utf-8")
    (recording,) = load_all(folder)
    assert "left out" in recording.problems[0]
    assert recording.blocks.height == 3
    other = tmp_path / "msmemscope_78_20240101120000_ascend"
    (other / "device_0" / "dump").mkdir(parents=True)
    (other / "device_0" / "dump" / "memscope_dump_1.csv").write_bytes(b"")
    (recording,) = load_all(tmp_path)
    assert any("is empty" in problem for problem in recording.problems)
    (folder / "event_log").mkdir()
    (folder / "event_log" / "process.header").write_bytes(b"nonsense" * 100)
    (recording,) = load_all(tmp_path)
    assert any("its dumps were read instead" in problem for problem in recording.problems)


def test_an_attribute_that_stands_a_hundred_thousand_times(tmp_path: Path) -> None:
    """Running totals are taken out one after the other."""
    path = tmp_path / "dump.csv"
    many = "used:1," * 100_000
    path.write_text(f'{HEADER}\n1,MALLOC,PTA,N/A,1,1,1,0,0x10,"{{size:64,{many}a:b}}",,\n{ROW}', encoding="utf-8")
    run = run_limited(["analyze", "leaks", path])
    assert run.returncode == 0, run.stderr
