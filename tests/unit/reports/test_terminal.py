"""The summary at the end of a run."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from msmemscope.analysis.peak.overview import MemoryOverview, NeverFreed, PoolPeak
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.block_sets import BlockSet, Ranking, Share
from msmemscope.reports.run_summary import ProcessSummary, ResultFile, RunSummary
from msmemscope.reports.terminal import render_run

ROOT = Path("/data/runs/memscopeDumpResults")
LONG_LINE = "/home/somebody/projects/language/model/architecture/transformer_block.py(1234): forward"


def blocks(*shares: Share) -> BlockSet:
    """A set of blocks with the same shares by operator and by line."""
    ranking = Ranking(shares, Share("(3 others)", 10, 3))
    size, count = sum(share.size_bytes for share in shares) + 10, sum(share.block_count for share in shares) + 3
    return BlockSet(size, count, ranking, ranking)


def process(process_id: int = 4242, *, is_running: bool = False) -> ProcessSummary:
    """A process with everything that can be said."""
    directory = ROOT / f"msmemscope_{process_id}_20240101120000_ascend"
    in_use = blocks(Share("torch._ops.aten.addmm.default", 5 << 20, 12), Share(LONG_LINE, 3 << 20, 1))
    overview = MemoryOverview(
        1234,
        {EventKind.MALLOC: 600, EventKind.FREE: 500, EventKind.ATEN_START: 67, EventKind.ATEN_END: 67},
        (PoolPeak(DEVICE_CPU, Pool.HOST, in_use.size_bytes, 77, 3_500_000_000, in_use),),
        (NeverFreed(DEVICE_CPU, Pool.HOST, in_use),),
    )
    return ProcessSummary(
        process_id=process_id,
        program="python train.py --learning-rate 0.001 --with-many-more-arguments-than-fit-on-one-line",
        directory=directory,
        files=(ResultFile(directory / "device_cpu/dump/memscope_dump_20240101120000.csv", 1234),),
        overview=overview,
        start_ns=2_000_000_000,
        is_running=is_running,
        remarks=("events not in the log: 3, because they came from within msmemscope itself or a signal handler",),
        observed=("torch_cpu: posix_memalign, free",),
        tool_memory_bytes=3 << 20,
        tool_memory_limit_bytes=40 << 20,
        log_bytes=80_000,
    )


def rendered(summary: RunSummary, width: int = 80) -> str:
    """The text that goes into a pipe."""
    out = io.StringIO()
    render_run(summary, out, width=width)
    return out.getvalue()


def test_one_process() -> None:
    """Files, events, peak, blocks never freed, coverage; no colour codes in a pipe."""
    one = dataclasses.replace(process(), analysis_remarks=("leaks: not judged, for some reason",))
    text = rendered(RunSummary((one,)))
    assert "\x1b" not in text
    assert "msmemscope: 1,234 events of 1 process" in text
    assert f"Files in {ROOT}/msmemscope_4242_20240101120000_ascend\n" in text
    assert "  device_cpu/dump/memscope_dump_20240101120000.csv (1,234 rows)\n" in text
    assert "Events: 600 MALLOC, 500 FREE, 134 OP_LAUNCH" in text
    assert "Peak on cpu (HOST): 8.00 MiB in 16 blocks, 1.50 s after recording began" in text
    assert "aten.addmm.default" in text
    assert "torch._ops" not in text
    assert "(3 others)" in text
    assert "Never freed on cpu (HOST): 8.00 MiB in 16 blocks" in text
    assert "is normal here" in text
    assert "  leaks: not judged, for some reason\n" in text
    assert "3.00 MiB of memory in the program" in text


def test_lines_fit_80_columns_except_paths() -> None:
    """Labels are cut at the side that tells less; paths stay whole, so that they can be copied."""
    text = rendered(RunSummary((process(),), unobservable=("a reason that is " + "very " * 30 + "long",)))
    too_long = [line for line in text.splitlines() if len(line) > 80]
    assert all(str(ROOT) in line for line in too_long), too_long
    assert "…" in text
    assert "transformer_block.py(1234): forward" in text


def test_narrow_terminals_do_not_break_it() -> None:
    """Ugly is enough."""
    assert "Peak" in rendered(RunSummary((process(), process(1))), width=20)


def test_several_processes() -> None:
    """One line each and totals; the one with the highest peak in detail."""
    text = rendered(RunSummary((process(1001), process(1002))))
    assert "msmemscope: 2,468 events of 2 processes" in text
    assert "1001  python train.py" in text
    assert "all together" in text
    assert "  msmemscope_1002_20240101120000_ascend\n" in text
    assert "Process 1001, the one with the highest peak" in text
    assert text.count("observed: torch_cpu") == 1
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_what_concerns_one_of_several_names_it() -> None:
    """A remark that not all share says whose it is."""
    other = dataclasses.replace(process(1002), remarks=(), unobserved=("operators: no PyTorch",))
    text = rendered(RunSummary((process(1001), other)))
    assert "not observed: operators: no PyTorch (process 1002)" in text
    assert "signal handler (process 1001)" in " ".join(text.split())


def test_nothing_recorded() -> None:
    """Says so, and why as far as it is known."""
    text = rendered(
        RunSummary(
            (), unrecorded=("bash", "python3.11"), unrecorded_count=3, unobservable=("/bin/x is statically linked",)
        )
    )
    assert "msmemscope: nothing was recorded" in text
    assert "nothing to record in 3 processes: bash, python3.11" in text
    assert "not observed: /bin/x is statically linked" in text


def test_running_processes() -> None:
    """They are named, with the command that finishes them."""
    text = rendered(RunSummary((process(is_running=True),), recover_command="msmemscope recover out"))
    assert "Not freed yet on cpu" in text
    assert "Still running: process 4242. When it has ended: msmemscope recover out" in text


def test_names_of_the_program_cannot_steer_the_terminal() -> None:
    """Neither control characters nor the markup of the renderer."""
    evil = dataclasses.replace(process(), remarks=("\x1b[2J[red]wiped[/red]",))
    text = rendered(RunSummary((evil,)))
    assert "\x1b" not in text
    assert "[red]wiped[/red]" in text
