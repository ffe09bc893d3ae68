"""Writes one short run as the dumps of every age and tool: what readers must make the same tables of.

    python -m tests.golden.dump_inputs FOLDER

The run: an operator allocates block A, writes it, reads its second half; the step ends. The driver gives 2 MiB, block B
is allocated, A is freed. B and the driver's memory are alive at the end.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"
)
PROCESS_ID = 77
A, B, DRIVER = 0x12C041200000, 0x12C041400000, 0x12C040000000
PYTHON_STACK = "/home/me/train, v2.py(12): forward\n/home/me/train, v2.py(40): <module>\n"

Fields = list[str]


def _start_ns(number: int) -> int:
    return 1_795_181_430_000_000_000 + number * 1_000_000


def _rows() -> list[dict[str, str]]:
    """The run as the tool of May 2026 writes it: own numbers of blocks, `total` before `used`, no exit rows."""
    operator = "torch._ops.aten.add.Tensor"

    def row(number: int, event: str, kind: str, name: str = "N/A", **more: str) -> dict[str, str]:
        fields = {
            "ID": str(number), "Event": event, "Event Type": kind, "Name": name, "Timestamp(ns)": str(_start_ns(number)),
            "Process Id": str(PROCESS_ID), "Thread Id": "78", "Device Id": "0", "Ptr": "N/A", "Attr": "",
            "Call Stack(Python)": "", "Call Stack(C)": "",
        }  # fmt: skip
        return fields | {key.replace("_", " ").title(): value for key, value in more.items()}

    def memory(block: int, address: int, size: int, more: str) -> dict[str, str]:
        text = f"{{allocation_id:{block},addr:0x{address:016x},size:{size}{more}}}"
        return {"ptr": f"0x{address:016x}", "attr": text}

    shape = ",type:PTA,dtype:torch.float32,shape:torch.Size([16, 8])"
    a_alloc = row(4, "MALLOC", "PTA", **memory(1, A, 512, ",total:2097152,used:512,owner:PTA@ops@aten"))
    a_alloc["Call Stack(Python)"] = PYTHON_STACK
    return [
        row(0, "SYSTEM", "ACL_INIT", device_id="N/A"),
        row(1, "MSTX", "Range_start", "step start"),
        row(2, "OP_LAUNCH", "ATEN_START", operator),
        a_alloc,
        row(5, "ACCESS", "WRITE", operator, **memory(1, A, 512, shape)),
        row(6, "ACCESS", "READ", operator, **memory(1, A + 256, 256, shape)),
        row(7, "OP_LAUNCH", "ATEN_END", operator),
        row(8, "MSTX", "Range_end", "Range end from id 1"),
        row(9, "MALLOC", "HAL", **memory(2, DRIVER, 2 << 20, ",owner:CANN@RUNTIME,page_type:huge,alloc_type:alloc")),
        row(10, "MALLOC", "PTA", **memory(3, B, 1024, ",total:2097152,used:1536,owner:PTA@a, b:c")),
        row(11, "FREE", "PTA", **memory(1, A, 512, ",total:2097152,used:1024")),
        row(12, "SYSTEM", "ACL_FINI", device_id="N/A"),
    ]


def _line(row: dict[str, str]) -> str:
    """A row as its producer quotes it: names of marks, attributes and stacks, and nothing else."""
    quoted = {"Attr", "Call Stack(Python)", "Call Stack(C)"} | ({"Name"} if row["Event"] == "MSTX" else set())
    return ",".join(f'"{value}"' if name in quoted and value else value for name, value in row.items())


def write_may_2026(path: Path) -> None:
    """Rows in the order in which they were written: those of a block together when it is freed."""
    rows = _rows()
    grouped = [3, 4, 5, 10]
    order = [index for index in range(len(rows)) if index not in {*grouped, 0, 11}] + grouped + [0, 11]
    path.write_text("\n".join([HEADER, *(_line(rows[index]) for index in order), ""]), encoding="utf-8")


def write_august_2026(path: Path) -> None:
    """With rows that the tool invents at the end for blocks that are alive; `used` before `total`."""
    rows = _rows()
    for row in rows:
        row["Attr"] = re.sub(r"(total:\d+),(used:\d+)", r"\2,\1,process_used:3000000,device_used:4000000", row["Attr"])
    for number, block, address, size, pool in ((13, 3, B, 1024, "PTA"), (15, 2, DRIVER, 2 << 20, "HAL")):
        attributes = f"{{allocation_id:{block},addr:0x{address:016x},size:{size},shadow:true}}"
        invented = {"ID": str(number), "Event": "FREE", "Event Type": pool, "Attr": attributes, "Device Id": "0"}
        rows.append(rows[10] | invented | {"Ptr": f"0x{address:016x}", "Timestamp(ns)": str(_start_ns(number))})
    path.write_text("\n".join([HEADER, *map(_line, rows), ""]), encoding="utf-8")


def write_october_2025(path: Path) -> None:
    """Microseconds, decimal addresses, frees of negative size, no numbers of blocks."""
    rows = _rows()
    for row in rows:
        row["Timestamp(ns)"] = row["Timestamp(ns)"][:-3]
        row["Device Id"] = row["Device Id"].replace("N/A", "9999")
        if row["Event"] == "SYSTEM":
            row["Event Type"] = row["Event Type"].lower().replace("_", " ")
        row["Attr"] = re.sub(r"allocation_id:\d+,", "", row["Attr"])
        if row["Event"] == "FREE":
            row["Attr"] = row["Attr"].replace("size:", "size:-")
        if row["Event Type"] == "HAL":
            row["Attr"] = f"{{addr:{DRIVER},size:{2 << 20},owner:CANN@RUNTIME,MID:7}}"
        if row["Ptr"] != "N/A":
            row["Ptr"] = str(int(row["Ptr"], 16))
    path.write_text("\n".join([HEADER, *map(_line, rows), ""]), encoding="utf-8")


def write_rewritten(path: Path) -> None:
    """As check_inefficient leaves a file: rewritten by a CSV writer, CRLF, with findings."""
    rows = _rows()
    rows[3]["Attr"] = rows[3]["Attr"].replace("}", ",inefficient_type:early_allocation,late_deallocation}")
    rows[9]["Attr"] = rows[9]["Attr"].replace("}", ",inefficient:late_deallocation}")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER.split(","))
        writer.writerows(row.values() for row in rows)


def write_other_columns(path: Path) -> None:
    """Columns in another order and case, one more than there should be, addresses without 0x."""
    rows = _rows()
    names = [*reversed(HEADER.split(","))]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(name.upper() for name in names), "Remark"])
        for row in rows:
            row["Ptr"] = row["Ptr"].removeprefix("0x")
            writer.writerow([*(row[name] for name in names), "seen"])


def _json_by_splitting(text: str) -> str:
    """Attributes as older tools turn them into JSON: at each colon, nothing escaped."""
    if not text:
        return "{}"
    parts = text[1:-1].split(":")
    pieces = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        value, comma, key = part.rpartition(",") if index and not is_last else (part, "", "")
        pieces.append(f'"{value}","{key}"' if comma else f'"{part}"')
    return "{" + ":".join(pieces) + "}"


def write_database(path: Path, table: str = "memscope_dump") -> None:
    """A database of May 2026: quotes kept around names of marks and stacks, JSON that a colon in a value breaks."""
    rows = _rows()
    kinds = {"ID": "INTEGER", "Timestamp(ns)": "INTEGER", "Process Id": "INTEGER", "Thread Id": "INTEGER"}
    columns = ", ".join(f'"{name}" {kinds.get(name, "TEXT")}' for name in HEADER.split(","))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'CREATE TABLE "{table}" ({columns})')
        for row in rows:
            row["Attr"] = _json_by_splitting(row["Attr"])
            if row["Event"] == "MSTX":
                row["Name"] = f'"{row["Name"]}"'
            if row["Call Stack(Python)"]:
                row["Call Stack(Python)"] = f'"{row["Call Stack(Python)"]}"'
            connection.execute(f'INSERT INTO "{table}" VALUES ({",".join("?" * len(row))})', list(row.values()))


def write_old_database(path: Path) -> None:
    """A database of the older name, with addresses as numbers and proper JSON."""
    write_database(path, "leaks_dump")
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, row in enumerate(_rows(), 1):
            pairs = re.findall(
                r"(\w+):(.*?)(?=,\s*(?:page_type|alloc_type|total|used|owner|size|addr|type|dtype|shape):|\}$)",
                row["Attr"],
            )
            address = row["Ptr"] if row["Ptr"] == "N/A" else int(row["Ptr"], 16)
            values = (json.dumps(dict(pairs), separators=(",", ":")), address, number)
            connection.execute("UPDATE leaks_dump SET Attr = ?, Ptr = ? WHERE rowid = ?", values)


WRITERS = {
    "may_2026.csv": write_may_2026,
    "august_2026.csv": write_august_2026,
    "october_2025.csv": write_october_2025,
    "rewritten.csv": write_rewritten,
    "other_columns.csv": write_other_columns,
    "may_2026.db": write_database,
    "october_2025.db": write_old_database,
}
"""Name of an input to what writes it."""


def main() -> None:
    """Write all inputs into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in WRITERS.items():
        write(folder / name)


if __name__ == "__main__":
    main()
