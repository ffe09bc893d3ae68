"""Event logs of every version since they were kept are read as the tool of their time read them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log.layout import FORMAT_VERSION
from tests.support.golden_logs import unpack_golden_log

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = range(4, FORMAT_VERSION + 1)


def rows_and_golden(name: str, folder: Path, device: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows of the dump that is written of a golden log now, and those of its time."""
    capture = unpack_golden_log(name, folder)
    expected = (capture / "expected.csv").read_text(encoding="utf-8")
    (capture / "expected.csv").unlink()
    assert main(["recover", str(folder)]) == 0
    (dump,) = capture.glob(f"device_{device}/dump/memscope_dump_*.csv")
    rows, golden = (list(csv.DictReader(io.StringIO(text))) for text in (dump.read_text(encoding="utf-8"), expected))
    return rows, golden


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_gives_the_dump_of_its_time(version: int, tmp_path: Path) -> None:
    """Row by row, in every column."""
    rows, golden = rows_and_golden(f"version_{version}", tmp_path, "cpu")
    assert len(golden) > 10
    assert rows == golden


def test_texts_of_attributes_give_the_dump_of_their_time(tmp_path: Path) -> None:
    """A program that ran out of NPU memory, with all kinds of attributes as texts, as they were until version 5."""
    rows, golden = rows_and_golden("attributes_5", tmp_path, "0")
    for row in (*rows, *golden):
        del row["Call Stack(C)"]  # names libraries of the machine
    keys = {pair.partition(":")[0] for row in golden for pair in row["Attr"].strip("{}").split(",")}
    assert keys >= {"owner", "page_type", "alloc_type", "func", "req_size", "flag", "max_reserved", "device_rate"}
    assert rows == golden
