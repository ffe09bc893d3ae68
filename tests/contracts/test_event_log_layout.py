"""The reader's copy of the event log format says the same as the C++ headers."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import Enum, IntEnum, IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.formats.event_log import layout
from msmemscope.model import attributes, devices, events, pools

if TYPE_CHECKING:
    import numpy as np

FORMAT = Path(__file__).parents[2] / "native" / "core" / "format"
HEADERS = ("record.h", "packed_block.h", "process_header.h", "definition.h", "attribute.h")

ENUMS: dict[str, type[Enum]] = {
    "EventKind": events.EventKind,
    "Pool": pools.Pool,
    "DeviceKind": devices.DeviceKind,
    "RecordFlag": events.EventFlag,
    "CaptureState": layout.CaptureState,
    "DefinitionKind": layout.DefinitionKind,
    "LineTableFormat": layout.LineTableFormat,
    "AttributeKey": attributes.AttributeKey,
    "ValueKind": attributes.ValueKind,
}

STRUCTS: dict[str, np.dtype[Any]] = {
    "Record": layout.RECORD,
    "ProcessHeader": layout.PROCESS_HEADER,
    "SegmentHeader": layout.SEGMENT_HEADER,
    "PackedBlockHeader": layout.PACKED_BLOCK_HEADER,
    "DefinitionHeader": layout.DEFINITION_HEADER,
    "CodePayload": layout.CODE_PAYLOAD,
    "PythonFrame": layout.PYTHON_FRAME,
    "ModulePayload": layout.MODULE_PAYLOAD,
    "Attribute": layout.ATTRIBUTE,
}

CONSTANTS = {
    "kFormatVersion": layout.FORMAT_VERSION,
    "kByteOrderMark": layout.BYTE_ORDER_MARK,
    "kProcessMagic": layout.PROCESS_MAGIC,
    "kEventSegmentMagic": layout.EVENT_SEGMENT_MAGIC,
    "kPackedSegmentMagic": layout.PACKED_SEGMENT_MAGIC,
    "kPackedBlocksOffset": layout.PACKED_BLOCKS_OFFSET,
    "kPackedBlockAlignment": layout.PACKED_BLOCK_ALIGNMENT,
    "kPackedBlockCommit": layout.PACKED_BLOCK_COMMIT,
    "kDefinitionSegmentMagic": layout.DEFINITION_SEGMENT_MAGIC,
    "kSegmentDataOffset": layout.SEGMENT_DATA_OFFSET,
    "kDefinitionCommit": layout.DEFINITION_COMMIT,
    "kDeviceNone": devices.DEVICE_NONE,
    "kDevicesPerKind": devices.DEVICES_PER_KIND,
    "kDeviceKinds": len(devices.DeviceKind),
    "kDeviceCpu": devices.DEVICE_CPU,
}

TYPES = {
    "std::uint64_t": "u8",
    "std::int64_t": "i8",
    "std::uint32_t": "u4",
    "std::uint16_t": "u2",
    "std::uint8_t": "u1",
    "std::int8_t": "i1",
    "CaptureState": "u4",
    "LineTableFormat": "u4",
    "DefinitionKind": "u2",
    "EventKind": "u1",
    "AttributeKey": "u2",
    "ValueKind": "u2",
    "Pool": "u1",
}


def header_text() -> str:
    """All headers of the format without their comments."""
    text = "".join((FORMAT / name).read_text(encoding="utf-8") for name in HEADERS)
    return re.sub(r"//[^\n]*", "", text)


def integer(text: str) -> int:
    """The value of a C++ integer expression as the headers have them: a literal, or `1U << n`."""
    literal = re.sub(r"(?<=[0-9a-fA-F])[uUlL]+", "", text.strip())
    left, shift, right = literal.partition("<<")
    return int(left, 0) << int(right, 0) if shift else int(left, 0)


def python_name(name: str) -> str:
    """`kAtenStart` as Python members are called: `ATEN_START`; `kPython310` stays one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"^k(Flag)?", "", name)).upper()


def enum_members(name: str) -> dict[str, int]:
    """The members of a C++ enum under their Python names."""
    match = re.search(rf"enum (?:class )?{name} : [\w:]+ {{(.*?)}};", header_text(), re.DOTALL)
    assert match, f"enum {name} is not in the headers"
    pairs = (part.partition("=") for part in match[1].split(",") if part.strip())
    return {python_name(member.strip()): integer(value) for member, _, value in pairs}


def struct_fields(name: str) -> list[tuple[str, str]]:
    """The fields of a C++ struct in their order: name and numpy type."""
    match = re.search(rf"struct {name} {{(.*?)}};", header_text(), re.DOTALL)
    assert match, f"struct {name} is not in the headers"
    fields = []
    for declaration in match[1].split(";"):
        if declaration.strip():
            kind, field = declaration.split()
            fields.append((field.partition("[")[0], TYPES[kind]))
    return fields


@pytest.mark.parametrize("name", ENUMS)
def test_enum_has_the_same_members(name: str) -> None:
    """Every member of the C++ enum exists here with its value, and no other."""
    ours = {member.name: int(member.value) for member in ENUMS[name]}
    theirs = enum_members(name)
    assert ours == theirs, (
        f"{name} is native/core/format and {ENUMS[name].__module__}: write into each what the other has"
    )
    assert issubclass(ENUMS[name], (IntEnum, IntFlag))


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_has_the_same_fields(name: str) -> None:
    """Fields have the same names, order and types, and there is no padding between them."""
    dtype = STRUCTS[name]
    assert dtype.fields is not None
    ours = [(field, dtype.fields[field][0].base.str[1:]) for field in dtype.names or ()]
    assert ours == struct_fields(name), (
        f"{name} is in native/core/format and in formats/event_log/layout.py: change both"
    )


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_has_the_same_value(name: str) -> None:
    """Magic numbers, the version and the special devices are the same."""
    match = re.search(rf"constexpr [\w:]+ {name} = ([^;]+);", header_text())
    assert match, f"constant {name} is not in the headers"
    assert integer(match[1]) == CONSTANTS[name], (
        f"{name} is in native/core/format and in formats/event_log/layout.py: change both"
    )


def test_kinds_of_devices_have_the_same_words() -> None:
    """In the order of their numbers."""
    match = re.search(r"kDeviceKindWords\[kDeviceKinds\] = {([^}]*)}", header_text())
    assert match
    words = re.findall(r'"(\w+)"', match[1])
    assert words == [devices.KIND_NAMES[kind].word for kind in sorted(devices.DeviceKind)]


def test_every_struct_of_the_headers_is_compared() -> None:
    """A struct or enum that is added to the headers is added here."""
    text = header_text()
    remedy = "add what is new in native/core/format to the tables at the head of this file"
    assert set(re.findall(r"struct (\w+) {", text)) == set(STRUCTS), remedy
    assert set(re.findall(r"enum (?:class )?(\w+) :", text)) == set(ENUMS), remedy


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_compiler_places_fields_where_the_reader_looks(tmp_path: Path) -> None:
    """Offsets and sizes as a compiler sees them are those of the dtypes."""
    lines = []
    expected = {}
    for name, dtype in STRUCTS.items():
        assert dtype.fields is not None
        lines.append(f'std::printf("{name} %zu\\n", sizeof({name}));')
        expected[name] = dtype.itemsize
        for field in dtype.names or ():
            lines.append(f'std::printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            expected[f"{name}.{field}"] = dtype.fields[field][1]
    source = tmp_path / "offsets.cpp"
    includes = "".join(f'#include "{name}"\n' for name in HEADERS)
    body = "\n".join(lines)
    source.write_text(
        f"{includes}#include <cstdio>\nusing namespace msmemscope::format;\nint main() {{\n{body}\n}}\n",
        encoding="utf-8",
    )
    program = tmp_path / "offsets"
    subprocess.run(["g++", "-std=c++17", "-I", FORMAT, "-o", program, source], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    printed = {name: int(value) for name, value in (line.split() for line in output.splitlines())}
    assert printed == expected
