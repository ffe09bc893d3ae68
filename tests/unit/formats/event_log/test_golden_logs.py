"""Event logs of every version since they were kept are read as the tool of their time read them."""

from __future__ import annotations

import csv
import io
import tarfile
from pathlib import Path

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log.layout import FORMAT_VERSION

GOLDEN = Path(__file__).parents[3] / "golden" / "event_logs"
VERSIONS = range(4, FORMAT_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_gives_the_dump_of_its_time(version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Row by row, in every column."""
    with tarfile.open(GOLDEN / f"version_{version}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (capture,) = tmp_path.iterdir()
    expected = (capture / "expected.csv").read_text(encoding="utf-8")
    (capture / "expected.csv").unlink()
    assert main(["recover", str(tmp_path)]) == 0, capsys.readouterr().err
    (dump,) = capture.glob("device_cpu/dump/memscope_dump_*.csv")
    rows, golden = (list(csv.DictReader(io.StringIO(text))) for text in (dump.read_text(encoding="utf-8"), expected))
    assert len(golden) > 10
    assert rows == golden
