"""A CUDA program that nobody prepared: its older blocks are those that torch knows, and its leak is named."""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.cuda.conftest import PROGRAMS
from tests.support import tool
from tests.support.targets import environment

if TYPE_CHECKING:
    from tests.cuda.conftest import ObserveCuda


@pytest.mark.usefixtures("tracing")
def test_older_blocks_are_those_of_torch(observe_torch: ObserveCuda) -> None:
    """Their sum is torch's own counter, to the byte; the line that leaks from then on is named."""
    variables = environment(**observe_torch.runtime.variables())
    command = [observe_torch.python, str(PROGRAMS / "attached.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        allocated = int(program.stdout.readline())
        options = ["--for=3s", "--device=cuda", f"--output={observe_torch.output}"]
        attach = [*map(str, tool.TOOL), "attach", str(program.pid), *options]
        with subprocess.Popen(attach, stderr=subprocess.PIPE, text=True, env=environment()) as attached:
            assert attached.stderr is not None
            assert "attached to process" in attached.stderr.readline()
            time.sleep(0.3)
            program.stdin.write("\n")
            program.stdin.flush()
            said = " ".join(attached.stderr.read().split())
            assert attached.wait() == 0, said
        assert program.stdout.read() == "ended\n"
        assert program.wait() == 0
    assert re.search(r"leak: .* on cuda:0 at \S*attached\.py\(\d+\): keep, .* held by __main__\.LEAKED", said), said
    assert "cuda:0 was used, which" not in said
    (capture,) = observe_torch.output.glob("msmemscope_*_ascend")
    recording = load(capture)
    begin = recording.events.filter(pl.col("kind") == EventKind.START_TRACE)["sequence"][0]
    older = recording.blocks.filter(
        pl.col("pool") == Pool.CUDA, pl.col("name").is_null() | (pl.col("name") == "")
    ).filter(pl.col("python_stack_id") == 0, pl.col("native_stack_id") == 0)
    assert begin is not None
    assert int(older["size"].sum()) == allocated
