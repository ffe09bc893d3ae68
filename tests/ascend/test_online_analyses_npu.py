"""The analyses at the end of a run on the virtual NPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msmemscope.analyzer import check_leaks
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from tests.ascend.conftest import CompileC, Observe

LEAKY = """
#include <stddef.h>
#include <stdint.h>
int aclInit(const char *path);
int aclrtSetDevice(int32_t device);
int aclrtMalloc(void **pointer, size_t size, int policy);
int aclrtFree(void *pointer);
uint64_t mstxRangeStartA(const char *message, void *stream);
void mstxRangeEnd(uint64_t id);
void mstxMarkA(const char *message, void *stream);
int main(void)
{
    void *kept[6], *other;
    aclInit(NULL);
    aclrtSetDevice(0);
    for (int step = 0; step < 6; ++step) {
        uint64_t id = mstxRangeStartA("step start", NULL);
        mstxMarkA("point", NULL);
        aclrtMalloc(&kept[step], 4 << 20, 0);
        aclrtMalloc(&other, 2 << 20, 0);
        aclrtFree(other);
        mstxRangeEnd(id);
    }
    return 0;
}
"""


def test_memory_of_the_driver_leaks_by_mstx_steps(compile_c: CompileC, observe_c: Observe) -> None:
    """Ranges of mstx are steps; the same blocks leak between marks, online and offline."""
    program = compile_c(LEAKY, "ascendcl", "ascend_hal", "ms_tools_ext")
    seen = observe_c(["--device=npu", "--analysis=leaks"], program)
    text = seen.run.stderr
    assert "\n====== ERROR: Detected memory leaks on device 0 ======\n" in text
    leaks = re.findall(
        r"^Direct Hal memory leak of 4\.0\d+ Mb\(s\) at 0x([0-9a-f]+) at step (\d)\.$", text, re.MULTILINE
    )
    assert [step for _, step in leaks] == ["2", "3", "4", "5"]
    report = (seen.run.capture.directory / "report.txt").read_text(encoding="utf-8")
    assert "Memory of the driver never given back" in report
    found = check_leaks(seen.run.capture.directory, "point", 1, quiet=True)
    assert [f"{address:x}" for address in found.to_polars()["address"]] == [leaks[0][0]]


def test_inefficient_memory_of_the_caching_pool(observe: Observe) -> None:
    """The rows of the pool's blocks name it, and the summary has its place."""
    seen = observe(["--device=npu", "--analysis=inefficient"], str(SOURCES / "inefficient_steps.py"), "npu")
    size = int(seen.run.report["size"])
    rows = [row for row in seen.of(0, event="MALLOC", event_type="PTA") if int(row["attributes"]["size"]) >= size]
    assert len(rows) >= 4
    assert all("late_deallocation" in row["attributes"]["inefficient_type"].split(",") for row in rows[-4:])
    report = (seen.run.capture.directory / "report.txt").read_text(encoding="utf-8")
    assert "on npu:0 (PTA)" in report[report.index("Inefficient memory: ") :]
    assert not any("inefficient_type" in row["attributes"] for row in seen.of(0, event="FREE"))


def test_leaks_are_quiet_without_steps(observe: Observe) -> None:
    """A run by default gets one line about them."""
    seen = observe(["--device=npu"], "operators.py")
    about = [line for line in seen.run.stderr.splitlines() if "leaks not judged" in line]
    assert len(about) == 1
    assert about[0].startswith("msmemscope: leaks not judged: no steps were seen")
