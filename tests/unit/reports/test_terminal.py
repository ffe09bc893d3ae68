"""The summary at the end of a run."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest

from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.analysis.peak.out_of_memory import OutOfMemoryResult
from msmemscope.analysis.peak.overview import MemoryOverview, NeverFreed, PoolPeak
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.place import Place
from msmemscope.model.pools import Pool
from msmemscope.recording.block_sets import BlockSet, Ranking, Share
from msmemscope.recording.timeline import MemoryCurve
from msmemscope.reports.process_report import render_process
from msmemscope.reports.run_summary import ProcessSummary, ResultFile, RunSummary
from msmemscope.reports.summary_screen import MOST_LINES, MOST_LINES_OF_SEVERAL, MOST_LINES_WITH_LISTS
from msmemscope.reports.terminal import render_run
from tests.fakes.traces import Trace
from tests.unit.reports.test_out_of_memory_section import FAILURE

ROOT = Path("/data/runs/memscopeDumpResults")
CURVE = MemoryCurve(1_000_000_000, 5_000_000_000, tuple(range(8)))
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
        (PoolPeak(DEVICE_CPU, Pool.HOST, in_use.size_bytes, 77, 3_500_000_000, in_use, CURVE),),
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
    """The verdict, peaks with memory over time, files, remarks; no colour codes in a pipe."""
    one = dataclasses.replace(process(), analysis_remarks=("leaks: not judged, for some reason",))
    text = rendered(RunSummary((one,)))
    assert "\x1b" not in text
    assert text.startswith("\nmsmemscope: nothing found: no failed allocation (1,234 events of 1 process)\n\n")
    assert f"Files in {ROOT}/msmemscope_4242_20240101120000_ascend\n" in text
    assert "  device_cpu/dump/memscope_dump_20240101120000.csv (1,234 rows)\n" in text
    assert "Peak on cpu (HOST): 8.00 MiB in 16 blocks, 1.50 s after recording began\n  ▁▂▃▄▅▆▇█ 4.00 s\n" in text
    assert "aten.addmm.default" in text
    assert "torch._ops" not in text
    assert "(3 others)" in text
    assert "  leaks: not judged, for some reason\n" in text
    assert "observed: torch_cpu" not in text


def test_the_report_of_a_process_has_the_rest() -> None:
    """Events by kind, blocks never freed, what was observed, what it cost."""
    out = io.StringIO()
    render_process(process(), out, width=80)
    text = out.getvalue()
    assert "Events: 600 MALLOC, 500 FREE, 134 OP_LAUNCH" in text
    assert "Never freed on cpu (HOST): 8.00 MiB in 16 blocks" in text
    assert "is normal here" in text
    assert "observed: torch_cpu: posix_memalign, free" in text
    assert "3.00 MiB of memory in the program" in text


def test_lines_fit_80_columns_except_paths() -> None:
    """Labels lose their middle; paths stay whole, so that they can be copied."""
    remark = f"a reason that is {'very ' * 8}long, about {ROOT}/{'folder/' * 20}file"
    text = rendered(RunSummary((process(),), unobservable=(remark,)))
    too_long = [line for line in text.splitlines() if len(line) > 80]
    assert too_long
    assert all(str(ROOT) in line for line in too_long), too_long
    assert "…" in text
    assert "/home/som" in text
    assert "transformer_block.py(1234): forward" in text


def test_narrow_terminals_do_not_break_it() -> None:
    """Ugly is enough."""
    assert "Peak" in rendered(RunSummary((process(), process(1))), width=20)


def test_several_processes() -> None:
    """One line each, with memory over time; the one with the highest peak in detail."""
    text = rendered(RunSummary((process(1001), process(1002))))
    assert "nothing found: no failed allocation (2,468 events of 2 processes)" in text
    assert "1001 python train.p" in text
    assert "  msmemscope_1002_20240101120000_ascend\n" in text
    assert "Peak on cpu (HOST) of process 1001: 8.00 MiB in 16 blocks\n" in text
    assert text.count("▁▂▃▄▅▆▇█") == 3


def test_ranks_stand_in_the_place_of_processes() -> None:
    """In their order, whichever process began first."""
    ranks = [dataclasses.replace(process(1000 + number), place=Place(rank=7 - number)) for number in range(8)]
    text = rendered(RunSummary(tuple(ranks)))
    named = [line.partition("  ")[0] for line in text.splitlines() if re.match(r"rank \d  ", line)]
    assert named == [f"rank {number}" for number in range(8)]
    assert "python train" not in text


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
    assert "Still running: process 4242. When it has ended: msmemscope recover out" in text


def test_names_of_the_program_cannot_steer_the_terminal() -> None:
    """Neither control characters nor the markup of the renderer."""
    evil = dataclasses.replace(process(), remarks=("\x1b[2J[red]wiped[/red]",))
    text = rendered(RunSummary((evil,)))
    assert "\x1b" not in text
    assert "[red]wiped[/red]" in text


def test_helpers_of_a_rank_are_processes() -> None:
    """They inherit its environment, and are not the rank."""
    rank = dataclasses.replace(process(1001), place=Place(rank=3))
    assert rank.overview is not None
    loader = dataclasses.replace(rank, process_id=1002, overview=dataclasses.replace(rank.overview, event_count=3))
    text = rendered(RunSummary((loader, rank)))
    assert re.findall(r"^(rank 3|100\d) ", text, re.MULTILINE) == ["rank 3", "1002"]


@pytest.mark.parametrize("count", [1, 2, 8, 30])
@pytest.mark.parametrize("remarks", [0, 40])
@pytest.mark.parametrize("pools", [0, 1, 9])
@pytest.mark.parametrize("is_listed", [False, True])
def test_it_fits_one_screen_whatever_is_found(*, count: int, remarks: int, pools: int, is_listed: bool) -> None:
    """24 lines and three for each finding more, 40 where leaks are listed, 60 for several processes: with leaks on eight devices."""
    directory = "/home/somebody/" + "folder/" * 5
    trace = Trace()
    for _ in range(6):
        for device in range(8):
            for line in range(5):
                path = f"{directory}train.py({line}): train_step\n{directory}train.py(40): main"
                trace.malloc(1 << 20, path, device=device)
                trace.malloc(1 << 19, path, device=device, pool=Pool.ATB)
        trace.step()
    leaks = find_leaks(trace.recording())
    assert leaks.step_leaks.leaked.height
    one = process()
    assert one.overview is not None
    peaks = tuple(dataclasses.replace(one.overview.peaks[0], device=device) for device in range(pools))
    failed = OutOfMemoryResult(12, (FAILURE,) * 3)
    found = dataclasses.replace(
        one,
        overview=dataclasses.replace(one.overview, peaks=peaks, out_of_memory=failed),
        leaks=leaks,
        lists_leaks=is_listed,
        remarks=tuple(f"{'remark ' * 20}{number}" for number in range(remarks)),
    )
    files = (ResultFile(one.directory / f"device_{number}/dump/memscope_dump.csv") for number in range(9))
    found = dataclasses.replace(found, files=tuple(files))
    ranks = tuple(dataclasses.replace(found, process_id=number, place=Place(rank=number)) for number in range(count))
    lines = rendered(RunSummary(ranks)).splitlines()
    most = (MOST_LINES_WITH_LISTS if is_listed else MOST_LINES) if count == 1 else MOST_LINES_OF_SEVERAL
    assert len(lines) <= most + 2 * 3, "\n".join(lines)
    assert lines[1].startswith("msmemscope: out of memory: on npu:1 at train.py(7): step")
    assert "next: msmemscope analyze oom" in "\n".join(lines)
    assert (sum(line.startswith("====== SUMMARY: ") for line in lines) >= 2) == is_listed
