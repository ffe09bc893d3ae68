"""The readers read back what our own dump writers wrote: random runs, CSV and DB, against the event log itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.ownership import owners_of_capture
from msmemscope.configuration import Config, DataFormat
from msmemscope.formats.dump import BlockFindings, write_dumps
from msmemscope.formats.event_log import Capture
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.writing import Place, write_export
from msmemscope.formats.reading import load, load_all
from msmemscope.model.events import WATCH_KINDS, EventKind
from msmemscope.recording import Recording
from tests.fakes.event_log_builder import (
    ATEN_END,
    ATEN_START,
    CPU,
    DEVICE_USAGE,
    HAL,
    HOST,
    MARK,
    NO_DEVICE,
    PTA,
    READ,
    RESERVED,
    STEP,
    WRITE,
    EventLogBuilder,
)
from tests.support.nightly import examples

RANGE_START, RANGE_END, KERNEL_LAUNCH, OWNER = 31, 32, 20, 53
ROWLESS = (
    EventKind.RESERVED,
    EventKind.DEVICE_USAGE,
    EventKind.OWNER,
    EventKind.IMPLIED_STEP,
    EventKind.HOLDER,
    *WATCH_KINDS,
)

# Texts that dumps of ours can hold: no begin of a formula, which they leave out on purpose.
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0\r\x1e\x1f"), min_size=1, max_size=12
).filter(lambda text: text[0] not in '=+-@\t"' and text != "N/A" and text.strip() == text)
labels = st.sampled_from(["RUNTIME", "HCCL", "a, b:c", '"x"', "size:5,type:PTA", "owner:x"])
steps_of_run = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "free", "read", "write", "operator", "mark", "kernel", "step", "range", "reserved"]),
        st.integers(0, 30),
        st.sampled_from([(PTA, 0), (PTA, 1), (HAL, 0), (HOST, CPU)]),
        names,
        labels,
    ),
    max_size=40,
)


def record(builder: EventLogBuilder, run: list[tuple[str, int, tuple[int, int], str, str]]) -> None:
    """Writes a random run into an event log."""
    alive: list[tuple[int, int, int, int, int]] = []
    stack = builder.python_stack((builder.code("train, v2.py", "forward", 3), 0))
    ranges = step = 0
    for action, number, (pool, device), name, label in run:
        place: dict[str, Any] = {"pool": pool, "device": device}
        if action == "malloc":
            address = 0x1000 * (1 + number)
            if any(block[1] == address and block[3:] == (pool, device) for block in alive):
                continue
            module = label if label.isalpha() else "DRV"
            attribute = builder.string(f"CANN@{module},page_type:huge,alloc_type:alloc") if pool == HAL else 0
            block = builder.malloc(
                address, 512 + number, attribute_id=attribute, python_stack_id=stack * (number % 2), **place
            )
            alive.append((block, address, 512 + number, pool, device))
            if number % 2:
                owner = {"extra": block, "attribute_id": builder.string(f"5{label}")}
                builder.add(OWNER, address=address, size=512 + number, **owner, **place)
        elif action in {"free", "read", "write"} and alive:
            block, address, size, *its_place = alive[number % len(alive)]
            place = dict(zip(("pool", "device"), its_place, strict=True))
            if action == "free":
                builder.free(block, address, size, **place)
                alive.pop(number % len(alive))
            else:
                shape = builder.string(f"dtype:torch.float32,shape:torch.Size([{number}, 4])")
                kind = READ if action == "read" else WRITE
                fields = {"name_id": builder.string(name), "attribute_id": shape, "extra": block}
                builder.add(kind, address=address + number, size=size - number, **place, **fields)
        elif action == "operator":
            operator = builder.string(name)
            builder.add(ATEN_START, name_id=operator, device=device)
            builder.add(ATEN_END, name_id=operator, device=device)
        elif action == "mark":
            builder.add(MARK, name_id=builder.string(name), device=NO_DEVICE if number % 3 == 0 else device)
        elif action == "kernel":
            builder.add(KERNEL_LAUNCH, name_id=builder.string(name), device=device, extra=(number << 32) + number * 7)
        elif action == "step":
            step += 1
            builder.add(STEP, size=step, device=device)
        elif action == "range":
            ranges += 1
            builder.add(RANGE_START, name_id=builder.string("step start"), device=device, extra=ranges)
            builder.add(RANGE_END, device=device, extra=ranges)
        elif action == "reserved" and pool == PTA:
            builder.add(RESERVED, size=number << 21, **place)
            builder.add(DEVICE_USAGE, size=number << 22, device=device, extra=number << 20)


def readable(recording: Recording) -> pl.DataFrame:
    """Events with their texts instead of ids, without those that are no rows of a dump."""
    texts = {0: "", **dict(recording.strings.rows())}
    stacks = {0: "", **dict(recording.python_stacks.rows())}
    return recording.events.filter(~pl.col("kind").is_in([*ROWLESS])).with_columns(
        pl.col("name_id", "attribute_id").replace_strict(texts, return_dtype=pl.String),
        pl.col("python_stack_id").replace_strict(stacks, return_dtype=pl.String),
    )


def totals(recording: Recording) -> list[tuple[Any, ...]]:
    """The totals of its place that each memory event sees."""
    kinds, seen, rows = (EventKind.RESERVED, EventKind.DEVICE_USAGE), {}, []
    for event in recording.events.iter_rows(named=True):
        if event["kind"] in kinds:
            pool = event["pool"] if event["kind"] == EventKind.RESERVED else None
            seen[event["device"], pool] = (event["size"], event["extra"])
        elif event["kind"] in {EventKind.MALLOC, EventKind.FREE} and event["pool"] == PTA:
            rows.append((event["sequence"], seen.get((event["device"], PTA)), seen.get((event["device"], None))))
    return rows


@examples(by_day=25)
@given(steps_of_run, st.sampled_from(list(DataFormat)))
def test_dumps_read_back_equal_the_event_log(
    run: list[tuple[str, int, tuple[int, int], str, str]], data_format: DataFormat
) -> None:
    """Events, blocks, totals and steps are the same, whichever way they came."""
    with tempfile.TemporaryDirectory() as root:
        builder = EventLogBuilder(Path(root))
        record(builder, run)
        directory = builder.write()
        log = load(directory)
        if log.events.is_empty() or log.events["kind"].is_in([*ROWLESS]).all():
            return
        settings = Config(output=root, data_format=data_format, python_stack=True)
        found = owners_of_capture(Capture(directory)).owners
        files = write_dumps(Capture(directory), settings, BlockFindings(owners=found))
        owners = found["owner"].cast(pl.String).to_list()
        for path in builder.log.iterdir():
            path.unlink()
        builder.log.rmdir()
        dump = load(directory)
    assert dump.form == data_format.value
    assert len(files.csv_files + files.db_files) >= 1
    assert dump.problems == ()
    assert readable(dump).rows() == readable(log).rows()
    assert dump.blocks.drop("name_id", "attribute_id", "python_stack_id", "free_python_stack_id", "owner").rows() == (
        log.blocks.drop("name_id", "attribute_id", "python_stack_id", "free_python_stack_id", "owner").rows()
    )
    assert dump.blocks["owner"].to_list() == owners
    assert totals(dump) == totals(log)
    assert dump.steps.rows() == log.steps.rows()


@examples(by_day=15)
@given(steps_of_run, st.sampled_from(list(DataFormat)))
def test_a_dump_that_is_exported_again_has_the_same_bytes(
    run: list[tuple[str, int, tuple[int, int], str, str]], data_format: DataFormat
) -> None:
    """From the CSV files of the event log, and from CSV files by way of the other format."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        builder = EventLogBuilder(root)
        record(builder, run)
        log = load(builder.write())
        if log.events.is_empty() or log.events["kind"].is_in([*ROWLESS]).all():
            return
        choice = ExportChoice("a run")
        write_export(log, "csv", Place(root / "first"), choice)
        write_export(_merged(root / "first"), data_format.value, Place(root / "between"), choice)
        write_export(_merged(root / "between"), "csv", Place(root / "again"), choice)
        assert _contents(root / "again") == _contents(root / "first")


def _merged(folder: Path) -> Recording:
    (recording,) = load_all(folder)
    return recording


def _contents(folder: Path) -> dict[str, bytes]:
    """The CSV files of a folder by that of their device."""
    files = {path.relative_to(folder).parts[0]: path.read_bytes() for path in sorted(folder.rglob("*.csv"))}
    assert files
    return files
