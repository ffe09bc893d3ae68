"""Makes the inputs of the reading side: what a training run of any length leaves, as event log, CSV and DB.

    python benchmarks/dump_generator.py --events 1000000 --form csv OUTPUT_FOLDER

The program that is made up trains in steps. Each operator is `ATEN_START`, `MALLOC` of its output, `ACCESS` (write the
output) and `ACCESS` (read an earlier block). `KERNEL_LAUNCH`, `ATEN_END` and the `FREE` of an earlier block follow.
Blocks live for one to two windows of operators, so lives overlap as in a real run; a few are never freed. The driver
(`HAL`) is asked for memory at the begin, and mstx ranges `step start` hold `OPERATORS_OF_STEP` operators each, with the
mark MARK at their begin. `--change` makes another name of some operators, for comparisons.

Same arguments, same bytes: the random numbers have a fixed seed. Everything is made in whole columns.
"""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from msmemscope.configuration import Analysis, CollectionItem, Config, DataFormat
from msmemscope.formats.dump import write_dumps
from msmemscope.formats.event_log import Capture, layout
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool

FORMS: Final = ("event-log", "csv", "db")

OPERATORS_OF_STEP: Final = 2_000
MARK: Final = "begin of a step"
PROCESS_ID: Final = 4242
START_NS: Final = 1_700_000_000_000_000_000

_OPERATOR_NAMES: Final = 120
_KERNEL_NAMES: Final = 80
_SHAPES: Final = 200
_STACKS: Final = 3_000
_STACK_DEPTH: Final = 12
_WINDOW: Final = 256
_FACT: Final = int(layout.DefinitionKind.FACT)
_NEVER_FREED_EVERY: Final = 20_011
_SEGMENT_ROWS: Final = 1 << 20
_CHANGED_NAME: Final = "torch._ops.aten.changed.default"

_Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Recipe:
    """The run to make."""

    events: int
    """About how many events; the last operator is always whole."""
    devices: int = 1
    """NPUs of the process; operators take turns."""
    changed: float = 0.0
    """Share of the operators that have another name, 0 to 1."""
    stacks: bool = False
    """Whether every event has a Python stack."""
    analyses: str | None = None
    """The value of `--analysis`, which the log notes among its settings; None for no settings."""
    data_format: DataFormat = DataFormat.CSV
    """The form of its dumps (`--data-format`), noted likewise."""


_RECORDED: Final = layout.RECORD.names or ()
RECORD: Final = np.dtype(
    [
        *((name, layout.RECORD[name]) for name in _RECORDED if name not in {"thread_and_device", "device_low"}),
        ("thread_id", np.dtype("<u4")),
        ("device", np.dtype("<i2")),
    ]
)
"""A record whose thread and device are numbers of their own, see `packed`."""


def packed(records: _Numbers) -> _Numbers:
    """Returns records of RECORD as the event log has them."""
    result = np.zeros(len(records), layout.RECORD)
    for name in {*_RECORDED} & {*(RECORD.names or ())}:
        result[name] = records[name]
    devices = records["device"].view(np.uint16)
    result["thread_and_device"] = records["thread_id"] | (devices >> 8).astype(np.uint32) << 24
    result["device_low"] = devices & 0xFF
    return result


def write_event_log(root: Path, recipe: Recipe) -> Path:
    """Writes the event log of the made-up process.

    Args:
        root: Where its directory is made; what is there is overwritten.
        recipe: The run to make.

    Returns:
        The directory of the process, `msmemscope_{pid}_{timestamp}_ascend`.
    """
    directory = root / f"msmemscope_{PROCESS_ID}_20240101000000_ascend"
    log = directory / "event_log"
    log.mkdir(parents=True, exist_ok=True)
    header = np.zeros(1, layout.PROCESS_HEADER)
    for name, value in {
        "magic": layout.PROCESS_MAGIC, "byte_order_mark": layout.BYTE_ORDER_MARK,
        "format_version": layout.FORMAT_VERSION, "header_bytes": 152, "record_bytes": 64,
        "state": layout.CaptureState.CLOSED, "process_id": PROCESS_ID, "start_ns": START_NS,
    }.items():  # fmt: skip
        header[name] = value
    (log / "process.header").write_bytes(header.tobytes().ljust(layout.SEGMENT_DATA_OFFSET, b"\0"))
    definitions, ids = _definitions(recipe)
    if recipe.analyses is not None:
        definitions += _settings(root, recipe.analyses, recipe.data_format)
    _write_segment(log / "definitions_0.segment", layout.DEFINITION_SEGMENT_MAGIC, definitions)
    records = packed(_records(recipe, ids))
    for number, start in enumerate(range(0, len(records), _SEGMENT_ROWS)):
        part = records[start : start + _SEGMENT_ROWS]
        _write_segment(log / f"events_{number}.segment", layout.EVENT_SEGMENT_MAGIC, part.tobytes())
    return directory


def write_input(root: Path, form: str, recipe: Recipe) -> tuple[Path, ...]:
    """Writes one input of one form.

    Args:
        root: A folder; it is created where missing.
        form: One of FORMS.
        recipe: The run to make.

    Returns:
        The directory of an event log, or the files of a dump, one per device.
    """
    directory = write_event_log(root, recipe)
    if form == "event-log":
        return (directory,)
    settings = Config(output=str(root), data_format=DataFormat(form), python_stack=recipe.stacks)
    files = write_dumps(Capture(directory), settings)
    return files.csv_files + files.db_files


def _settings(root: Path, analyses: str, data_format: DataFormat) -> bytes:
    """Returns the settings of a run as facts."""
    chosen = frozenset(Analysis(word) for word in analyses.split(",") if word)
    config = Config(output=str(root), events=frozenset(CollectionItem), analysis=chosen, data_format=data_format)
    lines = config.to_settings_text().split("\n")
    return b"".join(_definition(_FACT, 0, f"setting.{line}".encode()) for line in lines)


def _definition(kind: int, identity: int, payload: bytes) -> bytes:
    head = struct.pack("<IHHII", layout.DEFINITION_COMMIT, kind, 0, identity, len(payload))
    return head + payload + bytes(-len(payload) % 8)


@dataclass(frozen=True)
class _Ids:
    """String ids of the definitions, per family."""

    operators: _Numbers
    kernels: _Numbers
    shapes: _Numbers
    changed: int
    step: int
    mark: int
    driver: int


def _definitions(recipe: Recipe) -> tuple[bytes, _Ids]:
    """Returns the content of the definition segment, and the ids in it."""
    content = bytearray()

    def define(kind: int, identity: int, payload: bytes) -> None:
        content.extend(_definition(kind, identity, payload))

    count = 0

    def define_string(text: str) -> int:
        nonlocal count
        count += 1
        define(1, count, text.encode())
        return count

    ids = _Ids(
        operators=np.array([define_string(f"torch._ops.aten.operator_{i}.default") for i in range(_OPERATOR_NAMES)]),
        kernels=np.array([define_string(f"aclnnKernel_{i}_tiling") for i in range(_KERNEL_NAMES)]),
        shapes=np.array(
            [define_string(f"dtype:torch.float32,shape:torch.Size([{i + 1}, 1024])") for i in range(_SHAPES)]
        ),
        changed=define_string(_CHANGED_NAME),
        step=define_string("step start"),
        mark=define_string(MARK),
        driver=define_string("CANN@RUNTIME,page_type:huge,alloc_type:alloc"),
    )
    if recipe.stacks:
        random = np.random.default_rng(2)
        for code in range(_OPERATOR_NAMES):
            file = define_string(f"/usr/lib/python3/site-packages/package/module_{code}.py")
            define(2, code + 1, struct.pack("<6I", file, int(ids.operators[code]), code + 1, 0, 0, 0))
        for stack in range(_STACKS):
            frames = random.integers(1, _OPERATOR_NAMES, size=(_STACK_DEPTH, 2), dtype=np.uint32)
            define(3, stack + 1, frames.tobytes())
    return bytes(content), ids


# What one operator leaves, in its order; a free stands in the operator during which it happens.
_EVENTS_OF_OPERATOR: Final = (
    EventKind.ATEN_START, EventKind.MALLOC, EventKind.KERNEL_LAUNCH, EventKind.ACCESS_WRITE, EventKind.ACCESS_READ,
    EventKind.ATEN_END, EventKind.FREE,
)  # fmt: skip
_STEP_EVENTS: Final = 3
"""Between two steps: the end of a range, the begin of one, and a mark."""
_MALLOC_PLACE: Final = _EVENTS_OF_OPERATOR.index(EventKind.MALLOC)


def _records(recipe: Recipe, ids: _Ids) -> _Numbers:
    """Returns the event records, in sequence order."""
    per_operator = len(_EVENTS_OF_OPERATOR)
    operators = max(recipe.events // per_operator, 1)
    random = np.random.default_rng(1)
    operator = np.arange(operators)
    # Every operator's events lie in its own stretch of sequence numbers, the first of which mark steps.
    stretch = per_operator + _STEP_EVENTS
    first = 1 + recipe.devices + operator * stretch
    # Which earlier block an operator frees: those of the window before its own, in random order, each once.
    window = operator // _WINDOW
    order = np.argsort(window + random.random(operators), kind="stable")
    freed = np.full(operators, -1)
    later = operator >= _WINDOW
    freed[later] = order[operator[later] - _WINDOW]
    freed[(freed >= 0) & (freed % _NEVER_FREED_EVERY == _NEVER_FREED_EVERY - 1)] = -1
    read = np.maximum(operator - random.integers(0, _WINDOW // 2, operators), 0)

    sizes = 512 * (1 + random.integers(0, 400, operators) ** 2 // 16)
    addresses = 0x12C040000000 + operator % (2 * _WINDOW) * (8 << 20)
    is_kept = operator % _NEVER_FREED_EVERY == _NEVER_FREED_EVERY - 1
    addresses[is_kept] = 0x12D040000000 + operator[is_kept] // _NEVER_FREED_EVERY * (8 << 20)
    names = ids.operators[random.integers(0, _OPERATOR_NAMES, operators)]
    names = np.where(random.random(operators) < recipe.changed, ids.changed, names)
    stacks = 1 + operator * 7 % _STACKS if recipe.stacks else np.zeros(operators, dtype=np.int64)

    records = np.zeros((operators, per_operator), RECORD)
    records["kind"] = _EVENTS_OF_OPERATOR
    records["sequence"] = first[:, None] + _STEP_EVENTS + np.arange(per_operator)
    records["device"] = (operator % recipe.devices)[:, None]
    records["name_id"] = names[:, None]
    records["python_stack_id"] = stacks[:, None]
    malloc_sequence = first + _STEP_EVENTS + _MALLOC_PLACE
    for place, kind in enumerate(_EVENTS_OF_OPERATOR):
        part = records[:, place]
        if kind in {EventKind.ATEN_START, EventKind.ATEN_END}:
            continue
        if kind == EventKind.KERNEL_LAUNCH:
            part["name_id"] = ids.kernels[operator % _KERNEL_NAMES]
            part["extra"] = (2 << 32) + operator % 65_536
            continue
        block = {EventKind.ACCESS_READ: read, EventKind.FREE: freed}.get(kind, operator)
        part["pool"] = Pool.PTA
        part["address"] = addresses[block]
        part["size"] = sizes[block]
        part["device"] = block % recipe.devices
        if kind != EventKind.MALLOC:
            part["extra"] = malloc_sequence[block]
        if kind == EventKind.FREE:
            part["name_id"] = 0
        elif kind != EventKind.MALLOC:
            part["attribute_id"] = ids.shapes[block % _SHAPES]
    flat = records.reshape(-1)
    is_empty_free = np.zeros(records.shape, dtype=np.bool_)
    is_empty_free[:, -1] = freed < 0
    parts = [
        _driver_records(recipe, ids), flat[~is_empty_free.reshape(-1)], _step_records(recipe, ids, first, operator),
    ]  # fmt: skip
    joined = np.concatenate(parts)
    joined = joined[np.argsort(joined["sequence"], kind="stable")]
    joined["timestamp_ns"] = START_NS + joined["sequence"] * 1000
    joined["thread_id"] = PROCESS_ID
    return joined


def _driver_records(recipe: Recipe, ids: _Ids) -> _Numbers:
    """Returns one driver block per device, which the pool lives in."""
    blocks = np.zeros(recipe.devices, RECORD)
    blocks["sequence"] = 1 + np.arange(recipe.devices)
    blocks["kind"] = EventKind.MALLOC
    blocks["pool"] = Pool.HAL
    blocks["device"] = np.arange(recipe.devices)
    blocks["address"] = 0x12C000000000 + np.arange(recipe.devices) * (64 << 30)
    blocks["size"] = 16 << 30
    blocks["attribute_id"] = ids.driver
    return blocks


def _step_records(recipe: Recipe, ids: _Ids, first: _Numbers, operator: _Numbers) -> _Numbers:
    """Returns the begin and the end of each step's range and the mark in it, on every device in turn."""
    begins = operator[operator % OPERATORS_OF_STEP == 0]
    ends = operator[operator % OPERATORS_OF_STEP == OPERATORS_OF_STEP - 1] + 1
    ends = ends[ends < len(operator)]
    records = np.zeros(2 * len(begins) + len(ends), RECORD)
    # The end of a step comes just before the begin of the next one.
    records["sequence"] = np.concatenate([first[begins] + 1, first[begins] + 2, first[ends]])
    records["kind"] = np.repeat(
        [EventKind.RANGE_START, EventKind.MARK, EventKind.RANGE_END], [len(begins), len(begins), len(ends)]
    )
    step = np.concatenate([np.arange(len(begins)), np.arange(len(begins)), np.arange(len(ends))])
    records["extra"] = np.where(records["kind"] == EventKind.MARK, 0, 1 + step)
    records["device"] = step % recipe.devices
    records["name_id"] = np.select(
        [records["kind"] == EventKind.RANGE_START, records["kind"] == EventKind.MARK], [ids.step, ids.mark]
    )
    return records


def _write_segment(path: Path, magic: int, content: bytes) -> None:
    header = struct.pack("<QQII", magic, layout.BYTE_ORDER_MARK, layout.FORMAT_VERSION, 0)
    path.write_bytes(header.ljust(layout.SEGMENT_DATA_OFFSET, b"\0") + content)


def main() -> None:
    """Write one input and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="folder to write into")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--form", choices=FORMS, default="csv")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--change", type=float, default=0.0, help="share of operators with another name, 0 to 1")
    parser.add_argument("--stacks", action="store_true", help="a Python stack of 12 frames on every row")
    parser.add_argument("--analysis", help="what the run was asked to analyse; without it the log names no settings")
    parser.add_argument("--data-format", choices=[form.value for form in DataFormat], default="csv")
    arguments = parser.parse_args()
    recipe = Recipe(
        arguments.events,
        arguments.devices,
        arguments.change,
        arguments.stacks,
        arguments.analysis,
        DataFormat(arguments.data_format),
    )
    sys.stdout.writelines(f"{path}\n" for path in write_input(arguments.output, arguments.form, recipe))


if __name__ == "__main__":
    main()
