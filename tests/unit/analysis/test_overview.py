"""The summary of a capture, which reads a part of its events, against the analyses, which read all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.analysis.owners.decomposition import decompose
from msmemscope.analysis.peak.explanation import explain_peak
from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.analysis.peak.overview import memory_overview
from msmemscope.formats.event_log import Capture
from msmemscope.formats.reading import load
from msmemscope.launch.captures import failures_of
from msmemscope.model.events import OOM_SNAPSHOT_AFTER_NAME, OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.pools import Pool
from tests.fakes.event_log_builder import ATEN_END, ATEN_START, CPU, HAL, HOST, PTA, RESERVED, EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def recorded(folder: Path) -> Path:
    """Two pools of a device, CPU tensors and pinned memory; an allocation that failed twice, another on the CPU."""
    log = EventLogBuilder(folder)
    main = log.python_stack((log.code("/home/me/train.py", "main", 3), 0))
    model = log.python_stack(
        (log.code("/home/me/model.py", "build", 9), 0), (log.code("/home/me/train.py", "main", 3), 0)
    )
    pinned = log.string("pinned:true")
    driver = log.string("CANN@HCCL,page_type:huge")
    function = log.string("halMemAlloc")
    inside, behind = (log.string(name) for name in (OOM_SNAPSHOT_NAME, OOM_SNAPSHOT_AFTER_NAME))
    log.malloc(0x10_0000_0000, 64 * MIB, pool=HAL, device=0, attribute_id=driver, python_stack_id=main)
    log.add(ATEN_START, device=0, name_id=log.string("aten.mm"))
    log.malloc(0x10_0000_0000, 20 * MIB, pool=PTA, device=0, name_id=log.string("aten.mm"), python_stack_id=model)
    log.add(RESERVED, pool=PTA, device=0, size=64 * MIB)
    log.add(ATEN_END, device=0, name_id=log.string("aten.mm"))
    brief = log.malloc(0x11_0000_0000, 30 * MIB, pool=PTA, device=0, name_id=77, python_stack_id=model)
    log.malloc(0x7000_0000, 5 * MIB, pool=HOST, device=CPU, python_stack_id=main)
    log.malloc(0x7100_0000, 7 * MIB, pool=HOST, device=CPU, attribute_id=pinned)
    for free in (1, 2):
        figures = log.string(f"reserved:{64 * MIB},allocated:{50 * MIB},total:{1024 * MIB},free:{free * MIB}")
        log.add(EventKind.SNAPSHOT, device=0, name_id=inside, attribute_id=figures)
        log.add(EventKind.OOM, device=0, size=900 * MIB, name_id=function, python_stack_id=model)
    log.free(brief, 0x11_0000_0000, 30 * MIB, pool=PTA, device=0)
    figures = log.string(f"reserved:{60 * MIB},allocated:{50 * MIB},total:{1024 * MIB},free:{3 * MIB}")
    log.add(EventKind.SNAPSHOT, device=0, name_id=behind, attribute_id=figures)
    log.add(EventKind.OOM, device=CPU, size=1 << 40, name_id=log.string("posix_memalign"))
    return log.write()


def test_the_summary_and_the_analyses_say_the_same(tmp_path: Path) -> None:
    """Peaks of pools, their blocks, and every failure; pinned memory is apart, and lost names are names."""
    path = recorded(tmp_path)
    summary, recording = memory_overview(Capture(path), out_of_memory=failures_of(Capture(path))), load(path)
    assert summary.out_of_memory is not None
    assert summary.out_of_memory.failures == analyze_out_of_memory(recording).failures
    assert [failure.attempts for failure in summary.out_of_memory.failures] == [2, 1]
    assert summary.out_of_memory.failures[0].state["free"] == 2 * MIB

    peaks = {(peak.device, peak.pool): (peak.peak_bytes, peak.sequence, peak.timestamp_ns) for peak in summary.peaks}
    assert peaks == {
        (pool.device, pool.pool): (pool.peak_bytes, pool.sequence, pool.timestamp_ns)
        for pool in decompose(recording).pools
    }
    assert peaks.keys() == {(0, Pool.HAL), (0, Pool.PTA), (CPU, Pool.HOST), (CPU, Pool.HAL)}
    device, host = explain_peak(recording).devices
    assert peaks[0, Pool.PTA][:2] == (device.peak_bytes, device.peak_sequence)
    assert peaks[CPU, Pool.HOST][:2] == (host.peak_bytes, host.peak_sequence)

    (of_device,) = [peak for peak in summary.peaks if (peak.device, peak.pool) == (0, Pool.PTA)]
    in_operators = {share.label: share.size_bytes for share in of_device.in_use.by_operator.lines()}
    assert in_operators == {"<unknown>": 30 * MIB, "aten.mm": 20 * MIB}
    (at_failure,) = [part.blocks for part in summary.out_of_memory.failures[0].alive if part.pool == Pool.PTA]
    assert at_failure.size_bytes == device.in_use_bytes == 50 * MIB


def test_nothing_failed(tmp_path: Path) -> None:
    """Then the summary has nothing about it."""
    log = EventLogBuilder(tmp_path)
    log.malloc(0x1000, 64)
    assert failures_of(Capture(log.write())) is None
