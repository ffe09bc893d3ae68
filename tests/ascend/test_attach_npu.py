"""Somebody attaches to a program that uses an NPU: the blocks of torch_npu are known, older ones too, to the byte."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support import tool
from tests.support.ascend import PROGRAMS, TOLD_SINCE, torch_npu_release
from tests.support.targets import environment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("tracing")
def test_blocks_of_an_npu_are_those_that_torch_npu_counts(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """And the line that leaks is named, with its holder; the program goes on."""
    if torch_npu_release() < TOLD_SINCE:
        pytest.skip("this torch_npu has no trace tracker")
    command = [sys.executable, str(PROGRAMS / "attached_npu.py")]
    variables = environment(**vnpu_environment)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "ready\n"
            attach = [*map(str, tool.TOOL), "attach", str(program.pid), "--device=npu", f"--output={tmp_path}"]
            with subprocess.Popen(attach, stderr=subprocess.PIPE, text=True, env=environment()) as attached:
                assert attached.stderr is not None
                assert "attached to process" in attached.stderr.readline()
                program.stdin.write("go\n")
                program.stdin.flush()
                counted = dict(word.split("=") for word in program.stdout.readline().split())
                attached.send_signal(signal.SIGINT)
                said = " ".join(attached.stderr.read().split())
                assert attached.wait() == 0, said
            assert program.communicate("end\n", timeout=60)[0] == f"sum={50_000 * 45}\n"
        finally:
            program.kill()
    form = r"msmemscope: leak: 7\.\d+ MiB in \d+ blocks on npu:0 at \S*attached_npu\.py\(\d+\): leak, .* held by __main__\.LEAKED"
    assert re.search(form, said), said
    assert "not observed" not in said
    (capture,) = tmp_path.glob("msmemscope_*_ascend")
    recording = load(capture)
    of_pool = pl.col("pool") == Pool.PTA
    stopped = recording.events.filter(pl.col("kind") == EventKind.STOP_TRACE)["sequence"][0]
    alive = recording.blocks.filter(of_pool, pl.col("free_sequence").fill_null(stopped) >= stopped)
    assert alive["size"].sum() == int(counted["requested"])
    assert alive["address"].is_unique().all()
    course = recording.timeline(pool="PTA").filter(pl.col("sequence") <= stopped)
    assert course["reserved_bytes"].drop_nulls()[-1] == int(counted["reserved"])
