"""One run, written down by tools of different ages: every file gives the same tables."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from msmemscope.formats.reading import load, load_all
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording
from tests.golden.dump_inputs import DRIVER, PROCESS_ID, PYTHON_STACK, WRITERS, A, B

OPERATOR = "torch._ops.aten.add.Tensor"
SHAPE = "dtype:torch.float32,shape:torch.Size([16, 8])"


@pytest.fixture(scope="module", params=WRITERS)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The run, read from one of the files."""
    path = tmp_path_factory.mktemp("dump") / "any name"  # it does not matter
    WRITERS[request.param](path)
    return load(path)


def test_tables_have_their_schemas(recording: Recording) -> None:
    """Whatever was read, analyses find the columns that they know."""
    assert recording.events.schema == EVENT_SCHEMA
    assert recording.blocks.schema == RECORDING_BLOCK_SCHEMA
    assert recording.strings.schema == recording.python_stacks.schema == recording.native_stacks.schema == STRING_SCHEMA
    assert recording.process_id == PROCESS_ID
    assert recording.problems == ()


def test_blocks_are_the_same(recording: Recording) -> None:
    """Sizes, addresses, owners, ends, and the operators that run when blocks are allocated."""
    columns = ("allocation_id", "address", "size", "device", "pool", "free_sequence", "name", "owner")
    assert recording.blocks.select(columns).rows() == [
        (4, A, 512, 0, Pool.PTA, 11, OPERATOR, "PTA@ops@aten"),
        (9, DRIVER, 2 << 20, 0, Pool.HAL, None, None, "CANN@RUNTIME"),
        (10, B, 1024, 0, Pool.PTA, None, None, "PTA@a, b:c"),
    ]


def test_accesses_belong_to_their_block(recording: Recording) -> None:
    """Also the one that begins inside of it, with or without numbers of blocks."""
    accesses = recording.events.filter(pl.col("kind").is_in([EventKind.ACCESS_WRITE, EventKind.ACCESS_READ]))
    assert accesses.select("sequence", "address", "size", "pool", "extra").rows() == [
        (5, A, 512, Pool.PTA, 4),
        (6, A + 256, 256, Pool.PTA, 4),
    ]
    texts = dict(recording.strings.rows())
    assert {texts[key] for key in accesses["attribute_id"]} == {SHAPE}


def test_times_are_nanoseconds(recording: Recording) -> None:
    """Also where the tool wrote microseconds."""
    assert recording.events["timestamp_ns"][-1] == 1_795_181_430_012_000_000


def test_the_step_is_found(recording: Recording) -> None:
    """From the begin of the range to its end, although only the end has a number."""
    assert recording.steps.rows() == [(1, 1, 8, 0)]


def test_reserved_memory_is_known_before_the_row_that_tells_it(recording: Recording) -> None:
    """Attribute `total` becomes the record that an event log has, once per change."""
    reserved = recording.events.filter(pl.col("kind") == EventKind.RESERVED)
    assert reserved.select("sequence", "pool", "device", "size").rows() == [(3, Pool.PTA, 0, 2 << 20)]


def test_stacks_are_kept_once(recording: Recording) -> None:
    """Without the quotes that databases leave around them, with their commas and line ends."""
    assert recording.python_stacks["text"].to_list() == [PYTHON_STACK]
    assert recording.blocks["python_stack_id"].to_list() == [1, 0, 0]


def test_exit_rows_of_the_tool_are_no_frees(tmp_path: Path) -> None:
    """A tool writes FREE rows at the end for blocks that are alive: said, not believed."""
    path = tmp_path / "dump.csv"
    WRITERS["august_2026.csv"](path)
    recording = load(path)
    assert recording.blocks["free_sequence"].to_list() == [11, None, None]
    assert "2 blocks were alive at the end" in recording.coverage[0]


def test_a_block_that_was_freed_unseen_is_freed(tmp_path: Path) -> None:
    """The same kind of row before the end is the only trace of a free that really happened."""
    path = tmp_path / "dump.csv"
    WRITERS["august_2026.csv"](path)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines.append(next(line for line in lines if line.startswith("7,")).replace("7,", "20,", 1))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert load(path).blocks["free_sequence"].to_list() == [11, 15, 13]


def test_device_usage_is_kept(tmp_path: Path) -> None:
    """The bytes that the device and the process use are read from the attributes of memory rows."""
    path = tmp_path / "dump.csv"
    WRITERS["august_2026.csv"](path)
    usage = load(path).events.filter(pl.col("kind") == EventKind.DEVICE_USAGE)
    assert usage.select("sequence", "device", "size", "extra").rows() == [(3, 0, 4_000_000, 3_000_000)]


def test_a_file_of_two_processes_becomes_two_datasets(tmp_path: Path) -> None:
    """One per process; the call for a single one says which there are."""
    path = tmp_path / "dump.csv"
    WRITERS["may_2026.csv"](path)
    text = path.read_text(encoding="utf-8")
    header, _, rows = text.partition("\n")
    path.write_text(f"{header}\n{rows}{rows.replace(f',{PROCESS_ID},', ',88,')}", encoding="utf-8")
    first, second = load_all(path)
    assert (first.process_id, second.process_id) == (PROCESS_ID, 88)
    assert first.blocks.drop("attribute_id").equals(second.blocks.drop("attribute_id"))
    with pytest.raises(Exception, match=r"2 processes: 77, 88"):
        load(path)


def test_files_of_several_devices_belong_together(tmp_path: Path) -> None:
    """The folder of a capture without its event log: one process, shared rows counted once."""
    for device in (0, 1):
        folder = tmp_path / "msmemscope_77_20261120142900_ascend" / f"device_{device}" / "dump"
        folder.mkdir(parents=True)
        path = folder / "memscope_dump_20261120142900.csv"
        WRITERS["may_2026.csv"](path)
        if device == 1:
            lines = path.read_text(encoding="utf-8").replace(",78,0,", ",78,1,").splitlines()
            moved = [f"10{line}" if ",78,1," in line and line[0].isdigit() else line for line in lines]
            path.write_text("\n".join(moved) + "\n", encoding="utf-8")
    recording = load(tmp_path)
    assert recording.problems == ()
    assert recording.blocks["device"].to_list() == [0, 0, 0, 1, 1, 1]
    assert (recording.events["kind"] == EventKind.ACL_INIT).sum() == 1
