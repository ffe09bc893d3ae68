"""Captures are found wherever they lie, told apart by content, and summed up once; what cannot be read is a line."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from msmemscope.analysis.card.card import account_for_card
from msmemscope.cli.main import main
from msmemscope.cluster.capture_task import TaskOptions, summarise_capture
from msmemscope.cluster.captures import find_captures, fingerprint
from msmemscope.cluster.stable_sites import stable_line, stable_sites
from msmemscope.cluster.summary import MOST_BYTES, SUMMARY_SCHEMA, summaries_of
from msmemscope.configuration import LogLevel
from msmemscope.errors import UsageError
from msmemscope.formats.reading import load
from msmemscope.launch import messages
from tests.fakes.event_log_builder import HAL, PTA, EventLogBuilder
from tests.support.golden_logs import unpack_golden_log

ROOT = Path(__file__).parents[3]
NO_CACHE = TaskOptions(cache=None)


def write_log(root: Path, process_id: int, *, blocks: int = 20) -> Path:
    """A capture with some blocks of several steps, each from a line of its own."""
    log = EventLogBuilder(root, process_id)
    log.fact("process.rank", str(process_id % 100))
    code = log.code(f"/home/user{process_id}/project/train.py", "step", 10, b"")
    stack = log.python_stack((code, 0))
    for number in range(1, blocks + 1):
        log.malloc(0x1000 * number, 1 << 20, python_stack_id=stack, timestamp_ns=1_700_000_000_000_000_000 + number)
        if number % 4 == 0:
            log.add(44, size=number // 4, timestamp_ns=1_700_000_000_000_000_000 + number)
    return log.write()


def test_folders_patterns_and_urls(tmp_path: Path) -> None:
    """However deep they lie, and however they are named, each once."""
    first, second = write_log(tmp_path / "node0" / "out", 1), write_log(tmp_path / "node1" / "out" / "deep", 2)
    expected = sorted([str(first), str(second)])
    assert [*find_captures([str(tmp_path)]).locations] == expected
    assert [*find_captures([f"{tmp_path}/node*/out"]).locations] == expected
    assert [*find_captures([str(tmp_path), str(first), f"{tmp_path}/*"]).locations] == expected
    with pytest.raises(UsageError, match="names nothing"):
        find_captures([f"{tmp_path}/rank*"])


def test_a_store_is_read_as_a_folder_is(tmp_path: Path) -> None:
    """Reading through fsspec gives the same captures and the same summary, except for the name."""
    pytest.importorskip("fsspec")
    log = write_log(tmp_path / "out", 3)
    (location,) = find_captures([f"file://{tmp_path}"]).locations
    assert location == f"file://{log}"
    here, there = (summarise_capture(one, NO_CACHE) for one in (str(log), location))
    assert not there.failure
    left, right = (summaries_of([("", one.content)]).drop("source", "fingerprint") for one in (here, there))
    assert left.equals(right)
    cannot = summarise_capture("nosuchstore://bucket/x", NO_CACHE)
    assert "nosuchstore://bucket/x cannot be read" in cannot.failure


def test_a_capture_is_summed_up_once(tmp_path: Path) -> None:
    """A kept summary is used under any name, until the files change. A damaged cache counts as none."""
    log, cache = write_log(tmp_path / "a", 4), tmp_path / "cache"
    options = TaskOptions(str(cache))
    first = summarise_capture(str(log), options)
    (kept,) = cache.iterdir()
    written = kept.stat().st_mtime_ns
    moved = log.rename(tmp_path / log.name)
    again = summaries_of([("", summarise_capture(str(moved), options).content)])
    assert again["source"].to_list() == [str(moved)]
    assert again.drop("source").equals(summaries_of([("", first.content)]).drop("source"))
    assert kept.stat().st_mtime_ns == written
    kept.write_bytes(b"not a summary")
    assert summarise_capture(str(moved), options).content
    before = fingerprint(moved)
    (moved / "event_log" / "more").write_bytes(b"x")
    assert fingerprint(moved) != before


def test_hosts_name_the_same_line_alike(tmp_path: Path) -> None:
    """Home folders, containers and virtual environments differ; the hash of a call site does not."""
    rows = []
    for process in (5, 6):
        outcome = summarise_capture(str(write_log(tmp_path, process)), NO_CACHE)
        assert not outcome.failure, outcome.failure
        rows.append(summaries_of([("", outcome.content)]))
    sites = [row["sites"].explode().struct.unnest() for row in rows]
    assert sites[0]["hash"].to_list() == sites[1]["hash"].to_list()
    assert sites[0]["site"][0].startswith("train.py(")
    paths = pl.Series(["/a/lib/python3.11/site-packages/megatron/core.py(5): f\n/x/train.py(1)"])
    other = pl.Series(["/opt/py/lib/python3.12/site-packages/megatron/core.py(5): f\n/y/z/train.py(1)"])
    elsewhere = pl.Series(["/a/lib/python3.11/site-packages/megatron/core.py(5): f\n/x/train.py(2)"])
    assert stable_sites(paths)["hash"][0] == stable_sites(other)["hash"][0] != stable_sites(elsewhere)["hash"][0]
    assert stable_sites(paths)["site"][0] == "train.py(1), in megatron/core.py(5): f"
    assert stable_line("/usr/lib/libfoo.so(make_it+0x1f) [0x7f00]") == "libfoo.so(make_it) []"


def test_modules_are_those_of_the_card(tmp_path: Path) -> None:
    """When the driver's memory is at its highest, of the device that the summary is about."""
    builder = EventLogBuilder(tmp_path)
    hccl = builder.string("CANN@HCCL")
    for place, size in enumerate((200, 200, 40)):
        builder.malloc(0x90000000 + (place << 28), size << 20, attribute_id=hccl, pool=HAL, device=0)
    builder.malloc(0xF0000000, 7 << 20, attribute_id=hccl, pool=HAL, device=1)
    builder.malloc(0x100000, 5 << 20, pool=PTA, device=0)
    log = builder.write()
    (row,) = summaries_of([("", summarise_capture(str(log), NO_CACHE).content)]).to_dicts()
    of_card = account_for_card(load(log)).sites.filter(pl.col("device") == 0).to_dicts()
    assert row["pool"] == "PTA"
    assert [(one["module"], one["bytes"], one["blocks"]) for one in row["modules"]] == [("HCCL", 440 << 20, 3)]
    assert [one["size_bytes"] for one in of_card] == [440 << 20]


def test_a_summary_stays_below_a_megabyte(tmp_path: Path) -> None:
    """A hundred thousand blocks of a thousand steps."""
    log = write_log(tmp_path, 7, blocks=100_000)
    outcome = summarise_capture(str(log), NO_CACHE)
    assert len(outcome.content) < MOST_BYTES
    (row,) = summaries_of([("", outcome.content)]).to_dicts()
    assert row["peak_bytes"] == 100_000 << 20
    assert row["steps_ended"] == 25_000
    assert row["steps"][-1]["peak_bytes"] == 100_000 << 20
    assert max(row["curve"]["most_bytes"]) == 100_000 << 20


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """One good capture, and one of each way in which one can be bad."""
    write_log(tmp_path, 1)
    (tmp_path / "empty.msmemscope").write_bytes(b"")
    hollow = write_log(tmp_path, 2)
    for file in (hollow / "event_log").iterdir():
        file.write_bytes(b"garbage")
    truncated = write_log(tmp_path, 3)
    for segment in (truncated / "event_log").glob("events*"):
        segment.write_bytes(segment.read_bytes()[: 4096 + 64 * 10])
    void = write_log(tmp_path, 4)
    for file in (void / "event_log").iterdir():
        file.write_bytes(b"")
    unpack_golden_log("version_4", tmp_path / "older")
    return tmp_path


def test_broken_captures_are_lines_of_the_answer(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer about the others stands."""
    assert main(["cluster", str(broken), "--no-cache", "--jobs=1"]) == 0
    shown = capsys.readouterr().out
    assert "2 captures without an answer" in shown
    assert "empty.msmemscope is empty" in shown
    assert "msmemscope_2_" in shown
    good = [line for line in shown.splitlines() if re.search(r"  (?:rank [13]|process \d+): ", line)]
    assert len(good) == 2, shown
    assert "2 captures stand for no rank" in shown, (
        "the one of an older format, which knew none, and the one of empty files"
    )
    assert re.search(r"msmemscope_4_\w+\):\s+no event\s+was\s+recorded", shown), shown
    assert messages.are_printed(LogLevel.WARN), "also after captures that were read in this process"


def test_nothing_readable_is_an_answer_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that scripts see it."""
    (tmp_path / "a.msmemscope").write_bytes(b"")
    assert main(["cluster", str(tmp_path), "--no-cache"]) == 1
    assert capsys.readouterr().out.startswith("nothing could be read: 1 capture without an answer")


def test_results_take_the_place_of_nothing_but_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page and the table are new files or older ones of the verb, or nothing is begun."""
    log = write_log(tmp_path / "in", 1)
    page, table = tmp_path / "c.html", tmp_path / "s.parquet"
    command = ["cluster", str(log), "--no-cache", "-o", str(page), f"--summaries={table}"]
    assert main(command) == 0
    assert pl.read_parquet(table)["rank"].to_list() == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.html", "in", "s.parquet"]
    assert main(command) == 0
    for path, option in ((page, "-o"), (table, "--summaries")):
        path.write_text("mine")
        assert main(command) == 2
        assert path.read_text() == "mine"
        assert f"{option}: is there already, and msmemscope did not write it so" in capsys.readouterr().err
        assert main([*command, "--force"]) == 0
        assert path.read_bytes() != b"mine"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for Polars, on a table that the command has written; those for DuckDB where it is installed."""
    for process in (1, 2):
        write_log(tmp_path / "in", process)
    monkeypatch.chdir(tmp_path)
    assert main(["cluster", "in", "--no-cache", "--jobs=1", "--summaries=summaries.parquet"]) == 0
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/cluster.md", "exec"), {})  # noqa: S102 - our own page
    (query,) = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(query).fetchall()


def test_the_columns_of_the_table_are_described() -> None:
    """All of them, on the page."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert [name for name in SUMMARY_SCHEMA if f"`{name}`" not in page] == []
