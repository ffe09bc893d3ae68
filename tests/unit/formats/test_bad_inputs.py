"""Whatever lies at a path is read as far as it goes, or refused in one sentence; nothing of it is run or changed."""

from __future__ import annotations

import hashlib
import os
import pickle
import sqlite3
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from msmemscope.errors import InputError, MsmemscopeError
from msmemscope.formats.dump import csv_parts
from msmemscope.formats.reading import load, load_all
from tests.golden.dump_inputs import HEADER, WRITERS
from tests.support.nightly import NIGHT

GOOD = WRITERS["may_2026.csv"]


def write_text(text: str) -> Callable[[Path], object]:
    """Returns what writes a text."""
    return lambda path: path.write_bytes(text.encode())


def write_pickle(content: object) -> Callable[[Path], object]:
    """Returns what writes a pickle."""
    return lambda path: path.write_bytes(pickle.dumps(content))


def write_cut(name: str, share: float) -> Callable[[Path], None]:
    """Returns what writes the first part of an input."""

    def write(path: Path) -> None:
        WRITERS[name](path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])

    return write


def names_in(folder: Path) -> list[str]:
    """Returns what lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def write_view(path: Path) -> None:
    """A database whose dump is a view that never ends."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE VIEW memscope_dump AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
        )


def write_other_table(path: Path) -> None:
    """A database of something else."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE cities (name TEXT)")


def write_loop(path: Path) -> None:
    """A link to itself."""
    path.symlink_to(path.name)


def write_zip(path: Path) -> None:
    """An archive of other things."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
        archive.writestr("b.txt", "b")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda _: None, "No such file"),
    "empty": (write_text(""), "is empty"),
    "folder of nothing": (Path.mkdir, "holds nothing that can be analysed"),
    "link to itself": (write_loop, "symbolic links"),
    "pipe": (os.mkfifo, "neither a file nor a folder"),
    "text": (write_text("hello\n"), "nothing that can be analysed"),
    "zeros": (lambda path: path.write_bytes(bytes(5000)), "nothing that can be analysed"),
    "Python trace": (write_text("FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\n"), "can be analysed"),
    "header without columns": (write_text("ID,Event,Event Type\n"), "lacks columns of a dump: Name"),
    "header alone": (write_text(HEADER + "\n"), "holds no rows"),
    "broken rows alone": (write_text(HEADER + "\na,b\nc\n"), "holds no rows"),
    "database of something else": (write_other_table, "holds no dump: it has no table memscope_dump"),
    "view for a table": (write_view, "holds no dump"),
    "database that is cut off": (write_cut("may_2026.db", 0.4), "cannot be read as a database"),
    "database without content": (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(200)), "database"),
    "pickle of a number": (write_pickle(5), "no memory snapshot"),
    "pickle of a list": (write_pickle([1, 2]), "no memory snapshot"),
    "snapshot of nonsense": (
        write_pickle({"device_traces": [[{"action": "alloc", "size": "x"}]]}),
        "no memory snapshot",
    ),
    "pickle that is cut off": (
        lambda path: path.write_bytes(pickle.dumps({"segments": []})[:-8]),
        "cut off or damaged",
    ),
    "archive of something else": (write_zip, "files without a data.pkl"),
    "packed nonsense": (lambda path: path.write_bytes(b"\x1f\x8b" + bytes(100)), "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_input_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    """The message names the path and what is wrong with it."""
    write, expected = REFUSED[name]
    path = tmp_path / "input"
    write(path)
    with pytest.raises(MsmemscopeError) as caught:
        load_all(path)
    assert isinstance(caught.value, InputError)
    assert "input" in caught.value.message
    assert expected in caught.value.message
    assert "\n" not in caught.value.message


def test_a_path_with_a_zero_byte_is_refused() -> None:
    """As any other path that does not exist."""
    with pytest.raises(InputError, match="cannot be read"):
        load_all("a\0b")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """Unless one is root, who may read everything."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InputError, match="Permission denied"):
        load(path)


class Hostile:
    """Makes a folder when it is unpickled by Python."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Name what would run."""
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize(
    "content", [Hostile(), {"segments": [Hostile()]}, {"device_traces": [[{"action": Hostile()}]]}]
)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_hostile_pickle_runs_nothing(
    content: object, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever protocol it is of and wherever in the data it hides."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(content, protocol))
    with pytest.raises(InputError, match=r"no memory snapshot: it holds (STACK_)?GLOBAL"):
        load(path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02]r\xff\xff\xff\xff.",  # remembers under a huge number, for which Python makes room
        b"\x80\x04\x8d" + (1 << 60).to_bytes(8, "little") + b"x.",  # a text of an exabyte
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # a number of 2 GiB
        b"\x80\x02]r" + (70_000).to_bytes(4, "little") + b".",  # likewise, for more than the file could put there
        b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".",  # a bytearray, for which Python makes room unread
        b"\x80\x04\x95" + (1 << 40).to_bytes(8, "little") + b"N.",  # a frame of a terabyte
        b"\x80\x04\x8a\xff" + bytes(20),
        b"\x80\x04\x8c",
        b"\x80\x04M\x01",
        b"\x80\x02]" + b"]a" * 100_000 + b".",
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02e.",
        b"\x80\x02.",
        b"\x80\x02N(Ku.",
    ],
)
def test_a_pickle_that_claims_a_lot_costs_little(content: bytes, tmp_path: Path) -> None:
    """Lengths and numbers of a file are not believed."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tuples", [4_000, 400_000, 3_000_000])
def test_tuples_within_each_other(tuples: int, tmp_path: Path) -> None:
    """Python goes down into a key without looking how deep that is: a process of its own would end here."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(b"\x80\x02}N" + b"\x85" * tuples + b"K\x01s.")
    with pytest.raises(InputError):
        load(path)


BROKEN_ROWS = {
    "words for a number": 'x,MALLOC,PTA,N/A,1,77,78,0,0x10,"{size:1}",,',
    "too few fields": "5,MALLOC,PTA",
    "too many fields": "5,SYSTEM,STEP,1,1,77,78,0,N/A,,,,,,",
    "no size": '50,MALLOC,PTA,N/A,1,77,78,0,0x0000000000000010,"{addr:0x10}",,',
    "no address": '50,FREE,PTA,N/A,1,77,78,0,N/A,"{size:16}",,',
    "no device": '50,MALLOC,PTA,N/A,1,77,78,moon,0x10,"{size:16}",,',
    "a device that cannot be": '50,MALLOC,PTA,N/A,1,77,78,99999999999999999999,0x10,"{size:16}",,',
    "number too large": "99999999999999999999999,SYSTEM,STEP,1,1,77,78,0,N/A,,,",
    "zero bytes": "\0\0\0\0",
}


@pytest.mark.parametrize("name", BROKEN_ROWS)
@pytest.mark.parametrize("place", [1, 4, 12])
def test_a_broken_row_is_reported_with_its_line_and_skipped(name: str, place: int, tmp_path: Path) -> None:
    """Everything else in the file is read, before and behind it, also behind stacks of several lines."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    whole = load(path)
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    # A row can take several lines: put it where a row begins.
    begins = [number for number, line in enumerate(lines) if line[:1].isdigit() and line.count(",") > 3]
    index = begins[place - 1]
    lines.insert(index, BROKEN_ROWS[name])
    path.write_bytes("\n".join(lines).encode())
    recording = load(path)
    assert len(recording.problems) == 1, recording.problems
    assert recording.problems[0].startswith(f"line {index + 1}: ")
    assert "\0" not in recording.problems[0]
    columns = ["sequence", "kind", "address", "size", "extra"]
    assert recording.events.select(columns).rows() == whole.events.select(columns).rows()


def test_a_file_that_ends_within_a_row_loses_that_row(tmp_path: Path) -> None:
    """As a full disk leaves it, wherever the cut is."""
    whole, path = tmp_path / "whole.csv", tmp_path / "dump.csv"
    GOOD(whole)
    content = whole.read_bytes()
    expected = load(whole).events["sequence"].to_list()
    for size in range(len(HEADER) + 100, len(content), 23 if NIGHT else 71):
        path.write_bytes(content[:size])
        found = load(path).events["sequence"].to_list()
        assert set(found) <= set(expected)
        complete = content[:size].count(b"\n") - 1 - (2 if b"train, v2.py(40)" in content[:size] else 0)
        assert len(found) >= complete - 3


def test_names_that_were_never_escaped_are_read(tmp_path: Path) -> None:
    """Quotes within the text of a mark, and commas in the name of an operator, as older tools write them."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    text = path.read_text(encoding="utf-8")
    text = text.replace('"step start"', '"a "quoted", text"').replace("add.Tensor,", "add.Tensor(int, int),")
    path.write_text(text, encoding="utf-8")
    recording = load(path)
    assert recording.problems == ()
    assert 'a "quoted", text' in recording.strings["text"].to_list()
    assert recording.blocks["name"].to_list() == ["torch._ops.aten.add.Tensor(int, int)", None, None]


def test_a_quote_that_never_ends_costs_nothing(tmp_path: Path) -> None:
    """The row is read as it was meant, and so are those behind it."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    whole = load(path)
    text = path.read_text(encoding="utf-8").replace(HEADER, f'{HEADER}\n50,MSTX,Mark,"text,1,77,78,0,N/A,,,')
    path.write_text(text, encoding="utf-8")
    recording = load(path)
    assert recording.problems == ()
    assert '"text' in recording.strings["text"].to_list()
    assert recording.events["sequence"].to_list() == [*whole.events["sequence"], 50]


def test_names_stay_what_they_are(tmp_path: Path) -> None:
    """Formulas and control characters are text here; whoever writes them somewhere has to mind."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    name = '=cmd|"/c calc"!A1\x1b[31m\tß\u202e'
    text = path.read_text(encoding="utf-8").replace("torch._ops.aten.add.Tensor", '"' + name.replace('"', '""') + '"')
    path.write_text(text, encoding="utf-8")
    assert load(path).blocks["name"][0] == name


def test_texts_that_are_no_unicode_are_read(tmp_path: Path) -> None:
    """With the sign for what could not be read."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    path.write_bytes(path.read_bytes().replace(b"add.Tensor", b"add\xff\xfeTensor"))
    assert load(path).blocks["name"][0] == "torch._ops.aten.add\ufffd\ufffdTensor"


def test_rows_of_unknown_kind_are_counted(tmp_path: Path) -> None:
    """Kinds that tools will invent do not keep the others from being read."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    with path.open("a", encoding="utf-8") as file:
        file.write("60,WEATHER,RAIN,N/A,1,77,78,0,N/A,,,\n61,MALLOC,MOON,N/A,1,77,78,0,0x10,,,\n" * 2)
    problems = load(path).problems
    assert "rows of unknown kind left out: 2 with Event/Event Type WEATHER/RAIN" in problems
    assert "rows of unknown kind left out: 2 with Event/Event Type MALLOC/MOON" in problems


def test_many_broken_rows_are_counted(tmp_path: Path) -> None:
    """A file of something else after all is no screen full of messages."""
    path = tmp_path / "dump.csv"
    GOOD(path)
    with path.open("a", encoding="utf-8") as file:
        file.write("nonsense\n" * 500)
    problems = load(path).problems
    assert len(problems) <= 21
    assert "more of this file" in problems[-1] or len(problems) == 1


@pytest.mark.parametrize("piece_bytes", [200, 700, 5000])
def test_pieces_end_where_rows_end(piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small pieces are, and although stacks take several lines."""
    path = tmp_path / "dump.csv"
    for name in ("may_2026.csv", "other_columns.csv", "rewritten.csv"):
        WRITERS[name](path)
        whole = load(path)
        monkeypatch.setattr(csv_parts, "PIECE_BYTES", piece_bytes)
        in_pieces = load(path)
        monkeypatch.undo()
        assert in_pieces.problems == ()
        assert in_pieces.events.drop("name_id", "attribute_id").equals(whole.events.drop("name_id", "attribute_id"))
        assert in_pieces.blocks.drop("name_id", "attribute_id").equals(whole.blocks.drop("name_id", "attribute_id"))


@pytest.mark.parametrize("name", WRITERS)
def test_the_input_is_not_touched(name: str, tmp_path: Path) -> None:
    """Neither the file nor its folder changes, nor its times; also where databases would leave journals."""
    path = tmp_path / name
    WRITERS[name](path)
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, names_in(tmp_path)
    load(path)
    assert (
        hashlib.sha256(path.read_bytes()).hexdigest(),
        path.stat().st_mtime_ns,
        names_in(tmp_path),
    ) == before


def test_a_database_whose_rows_are_still_in_its_journal(tmp_path: Path) -> None:
    """As a process leaves it that was killed: the rows are read, the journal stays."""
    path = tmp_path / "dump.db"
    WRITERS["may_2026.db"](path)
    whole = load(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(
            'INSERT INTO memscope_dump SELECT 100, Event, "Event Type", Name, "Timestamp(ns)", '
            '"Process Id", "Thread Id", "Device Id", Ptr, Attr, \'\', \'\' FROM memscope_dump WHERE ID = 12'
        )
        connection.commit()
        before = names_in(tmp_path)
        assert "dump.db-wal" in before
        assert len(load(path).events) == len(whole.events) + 1
        assert names_in(tmp_path) == before


def test_a_database_that_is_damaged_in_the_middle(tmp_path: Path) -> None:
    """Rows before the damage are read, and the answer says where the damage begins."""
    path = tmp_path / "dump.db"
    WRITERS["may_2026.db"](path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for _ in range(8):
            connection.execute(
                "INSERT INTO memscope_dump SELECT ID + (SELECT max(ID) + 1 FROM memscope_dump), Event, "
                '"Event Type", Name, "Timestamp(ns)", "Process Id", "Thread Id", "Device Id", Ptr, Attr, '
                "'', '' FROM memscope_dump"
            )
    whole = load(path)
    content = bytearray(path.read_bytes())
    page_bytes = int.from_bytes(content[16:18], "big")
    middle = len(content) // page_bytes // 2 * page_bytes
    content[middle : middle + page_bytes] = b"\xa5" * page_bytes
    path.write_bytes(content)
    recording = load(path)
    assert "cannot be read" in recording.problems[0]
    assert 0 < len(recording.events) < len(whole.events)
    assert recording.events["sequence"].to_list() == whole.events["sequence"].to_list()[: len(recording.events)]
