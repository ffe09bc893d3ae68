"""Kernel launches and executions: every launch function, both formats of the device's log, and what must not be seen."""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.ascend.conftest import CompileC, Observe
    from tests.support.ascend import Observation

KERNELS: Final = ("--device=npu", "--level=kernel", "--events=launch")
CHIPS: Final = ("Ascend910B1", "Ascend950PR_9599")
ONE_CHIP_BY_DAY: Final = (CHIPS[0], pytest.param(CHIPS[1], marks=nightly))
EVERY_FUNCTION: Final = {
    "by_stub": 0,
    "by_stub_with_flag": 1,
    "by_handle": 0,
    "on_ai_cpu": 1,
    "by_function": 0,
    "by_function_v2": 1,
    "acl": 0,
    "acl_v2": 1,
    "acl_with_config": 0,
    "acl_with_host_args": 1,
}
EXECUTION: Final = "kernel_execution"
THREADS, LAUNCHES = 4, 500


@pytest.fixture
def kernels(compile_c: CompileC) -> Path:
    """Return the program that launches kernels."""
    return compile_c("kernels.c", "runtime", "ascendcl", "ascend_hal")


def kernel_rows(observation: Observation, device: int = 0) -> list[dict[str, Any]]:
    """The rows about kernels of a device."""
    return observation.of(device, event="KERNEL_LAUNCH")


def assert_complete(rows: list[dict[str, Any]]) -> None:
    """Each launch has one begin and one end of execution, of the same kernel, and they are in order."""
    tasks: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = collections.defaultdict(dict)
    for row in rows:
        key = (row["Process Id"], row["attributes"]["streamId"], row["attributes"]["taskId"])
        assert row["Event Type"] not in tasks[key], row
        tasks[key][row["Event Type"]] = row
    for key, found in tasks.items():
        assert set(found) == {"KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END"}, (key, found)
        launch, start, end = (found[kind] for kind in ("KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END"))
        assert launch["Name"] == start["Name"] == end["Name"]
        times = [int(row["Timestamp(ns)"]) for row in (launch, start, end)]
        assert times == sorted(times), (key, times)
        assert int(start["ID"]) > int(launch["ID"])


def losses_printed(observation: Observation) -> str:
    """The words of the captures and the tool about missing events, for the message of a failing test."""
    counters = ("dropped_reentrant", "dropped_failure", "dropped_recycled", "lost_definitions", "untracked_blocks")
    lines = [
        f"{capture.directory.name}: " + " ".join(f"{name}={getattr(capture.header, name)}" for name in counters)
        for capture in observation.run.captures
    ]
    return "\n".join([*lines, observation.run.stdout, observation.run.stderr])


def names(rows: list[dict[str, Any]], kind: str = "KERNEL_LAUNCH") -> list[str]:
    """Names of the rows of an event type, in order."""
    return [row["Name"] for row in rows if row["Event Type"] == kind]


@pytest.mark.parametrize("chip", CHIPS)
def test_every_launch_function(observe_c: Observe, kernels: Path, chip: str) -> None:
    """Each launch function gives one launch, with the name, the stream and the device's times."""
    before_ns = time.time_ns()
    seen = observe_c(KERNELS, kernels, variables={"VNPU_SOC": chip})
    rows = kernel_rows(seen)
    assert names(rows) == list(EVERY_FUNCTION)
    assert_complete(rows)
    # Streams are those of the program: the default one, and the one it made.
    streams = {row["Name"]: int(row["attributes"]["streamId"]) for row in rows}
    assert {name: min(stream, 1) for name, stream in streams.items()} == EVERY_FUNCTION
    # The device's clock is not the host's: its times were converted.
    assert all(before_ns < int(row["Timestamp(ns)"]) < time.time_ns() for row in rows)
    launches = {row["Thread Id"] for row in rows if row["Event Type"] == "KERNEL_LAUNCH"}
    assert launches == {rows[0]["Process Id"]}


@pytest.mark.parametrize("chip", ONE_CHIP_BY_DAY)
def test_streams_of_several_threads(observe_c: Observe, kernels: Path, chip: str) -> None:
    """Launches of four threads are told apart, and none is lost."""
    seen = observe_c(KERNELS, kernels, "threads", variables={"VNPU_SOC": chip})
    rows = kernel_rows(seen)
    assert_complete(rows)
    launches = {f"thread_{number}": LAUNCHES for number in range(THREADS)}
    assert collections.Counter(names(rows)) == launches, losses_printed(seen)
    threads = collections.defaultdict(set)
    for row in rows:
        if row["Event Type"] == "KERNEL_LAUNCH":
            threads[row["Name"]].add((row["Thread Id"], row["attributes"]["streamId"]))
    assert all(len(places) == 1 for places in threads.values())
    assert len(set.union(*threads.values())) == THREADS


SLOW_BEGIN = """
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtBinaryLoadFromData(const void*, size_t, const void*, void**);
int aclrtBinaryGetFunction(void*, const char*, void**);
int aclrtLaunchKernel(void*, uint32_t, const void*, size_t, void*);
int32_t MsprofRegisterCallback(uint32_t, int32_t (*)(uint32_t, void*, uint32_t));

static void* binary;
static pthread_barrier_t begin;

static int32_t take_command_slowly(uint32_t kind, void* command, uint32_t bytes) {
    (void)kind, (void)command, (void)bytes;
    usleep(100000);
    return 0;
}

static void* launch(void* name) {
    void* kernel = NULL;
    if (aclrtSetDevice(0) != 0 || aclrtBinaryGetFunction(binary, name, &kernel) != 0) exit(1);
    pthread_barrier_wait(&begin);
    for (int number = 0; number < 500; ++number) {
        if (aclrtLaunchKernel(kernel, 1, NULL, 0, NULL) != 0) exit(2);
    }
    return NULL;
}

int main(void) {
    static char names[4][16] = {"thread_0", "thread_1", "thread_2", "thread_3"};
    pthread_t threads[4];
    /* Told of the profiler before the runtime, whose number is 7. */
    if (MsprofRegisterCallback(1, take_command_slowly) != 0) return 3;
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || aclrtBinaryLoadFromData("", 0, NULL, &binary) != 0) return 4;
    pthread_barrier_init(&begin, NULL, 4);
    for (int thread = 0; thread < 4; ++thread) pthread_create(&threads[thread], NULL, launch, names[thread]);
    for (int thread = 0; thread < 4; ++thread) pthread_join(threads[thread], NULL);
    return 0;
}
"""


@pytest.mark.parametrize("chip", ONE_CHIP_BY_DAY)
def test_threads_that_launch_while_recording_begins(observe_c: Observe, compile_c: CompileC, chip: str) -> None:
    """One thread has the runtime begin to report, which takes a while: launches of the others are not lost."""
    program = compile_c(SLOW_BEGIN, "runtime", "ascendcl", "ascend_hal", "profapi")
    seen = observe_c(KERNELS, program, variables={"VNPU_SOC": chip})
    rows = kernel_rows(seen)
    assert_complete(rows)
    launches = {f"thread_{number}": LAUNCHES for number in range(THREADS)}
    assert collections.Counter(names(rows)) == launches, losses_printed(seen)


def test_more_launches_than_a_table_holds(observe_c: Observe, kernels: Path) -> None:
    """Numbers of tasks have 16 bits and come again."""
    launches = 70_000
    rows = observe_c(KERNELS, kernels, "burst", launches).rows["0"]
    kinds = collections.Counter(rows.filter(pl.col("Event") == "KERNEL_LAUNCH")["Event Type"])
    assert kinds == dict.fromkeys(("KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END"), launches)


def test_a_forked_child_has_a_log_of_its_own(observe_c: Observe, kernels: Path) -> None:
    """The child opens the log anew; the parent goes on with its own."""
    seen = observe_c(KERNELS, kernels, "fork")
    rows = kernel_rows(seen)
    by_process = collections.defaultdict(list)
    for row in rows:
        by_process[row["Process Id"]].append(row)
    found = sorted((names(process) for process in by_process.values()), key=len)
    assert found == [["in_child"] * 2, ["in_parent"] * 2 + ["in_parent_again"] * 2]
    for process in by_process.values():
        kinds = collections.Counter(row["Event Type"] for row in process)
        assert len(set(kinds.values())) == 1, kinds
        assert len(kinds) == 3


def test_devices(observe_c: Observe, kernels: Path) -> None:
    """Each device that is used has a log."""
    seen = observe_c(KERNELS, kernels, "devices")
    for device in (0, 1):
        assert names(kernel_rows(seen, device)) == [f"on_device_{device}"]
        assert_complete(kernel_rows(seen, device))
    report = (seen.run.capture.directory / "report.txt").read_text(encoding="utf-8")
    assert f"{EXECUTION}: log of tasks of device 0 1" in " ".join(report.split())


def test_only_the_chosen_device(observe_c: Observe, kernels: Path) -> None:
    """No launch of another device is recorded."""
    seen = observe_c(("--device=npu:1", *KERNELS[1:]), kernels, "devices")
    assert names(kernel_rows(seen, 1)) == ["on_device_1"]
    assert_complete(kernel_rows(seen, 1))
    assert kernel_rows(seen, 0) == []


def test_visible_devices(observe_c: Observe, kernels: Path) -> None:
    """The numbers of devices are the driver's."""
    seen = observe_c(KERNELS, kernels, variables={"ASCEND_RT_VISIBLE_DEVICES": "3"})
    assert names(kernel_rows(seen, 3)) == list(EVERY_FUNCTION)
    assert_complete(kernel_rows(seen, 3))


def test_the_log_is_opened_again_after_finalize(observe_c: Observe, kernels: Path) -> None:
    """The log is closed by aclFinalize, and opened by the next launch."""
    rows = kernel_rows(observe_c(KERNELS, kernels, "finalize"))
    assert names(rows) == ["before", "after"]
    assert_complete(rows)


@pytest.mark.parametrize(
    "options",
    [
        ("--device=npu", "--level=op", "--events=launch"),
        ("--device=npu", "--events=launch"),
        ("--device=npu", "--level=kernel", "--events=alloc,free"),
        ("--device=cpu", "--level=kernel", "--events=launch"),
    ],
)
def test_nothing_where_kernels_are_not_asked_for(observe_c: Observe, kernels: Path, options: tuple[str, ...]) -> None:
    """Without level kernel and the event launch nothing is recorded, and no log is opened."""
    seen = observe_c(options, kernels)
    assert kernel_rows(seen) == []
    assert EXECUTION not in seen.run.stdout + seen.run.stderr


def test_a_program_that_launches_nothing(observe_c: Observe, kernels: Path) -> None:
    """The log is opened by the first launch and not before."""
    seen = observe_c(KERNELS, kernels, "none")
    assert kernel_rows(seen) == []
    assert EXECUTION not in seen.run.stdout + seen.run.stderr


RUNTIME_ALONE = """
int aclInit(const char* path) { return path != 0; }
int rtKernelLaunch(const void* stub, unsigned blocks, void* arguments, unsigned bytes, void* description, void* stream) {
    return stub == (void*)1 && blocks == 2 && arguments == (void*)3 && bytes == 4 && description == (void*)5 &&
                   stream == (void*)6
               ? 42
               : 1;
}
"""
CALLER = """
int aclInit(const char*);
int rtKernelLaunch(const void*, unsigned, void*, unsigned, void*, void*);
int main(void) { return aclInit(0) != 0 ? 2 : rtKernelLaunch((void*)1, 2, (void*)3, 4, (void*)5, (void*)6); }
"""


def test_without_profiler_and_driver(observe_c: Observe, compile_c: CompileC) -> None:
    """A runtime that comes alone: its launches work, nothing is invented, and the coverage says what is missing."""
    library = compile_c(RUNTIME_ALONE, "c", flags=("-shared", "-fPIC"))
    caller = compile_c(CALLER, "c", flags=(str(library),))
    seen = observe_c(KERNELS, caller, expected_status=42)
    assert kernel_rows(seen) == []
    assert "libprofapi.so is not loaded" in " ".join((seen.run.stdout + seen.run.stderr).split())


def losses(observation: Observation) -> list[str]:
    """The losses that the training program printed."""
    return [line for line in observation.run.stdout.splitlines() if line[:1].isdigit() and "." in line]


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"TASK_QUEUE_ENABLE": "0"}, marks=nightly),
        {"TASK_QUEUE_ENABLE": "2"},
        pytest.param({"VNPU_SOC": CHIPS[1]}, marks=nightly),
    ],
)
def test_training(observe: Observe, variables: Mapping[str, str]) -> None:
    """The operators of a training run are launches, on the thread and the stream that has them."""
    seen = observe(KERNELS, "kernels.py", variables=variables)
    rows = kernel_rows(seen)
    assert_complete(rows)
    operators = collections.Counter(name.split("_")[0] for name in names(rows))
    # Three steps of two layers: forward, and backward without the gradient of the inputs.
    assert operators["Addmm"] == 6
    assert operators["Relu"] == 3
    assert operators["Mm"] == 9
    streams = {row["attributes"]["streamId"] for row in rows}
    assert len(streams) == 1


@nightly
def test_losses_do_not_change(observe: Observe) -> None:
    """Recording kernels changes no result."""
    observed = losses(observe(KERNELS, "kernels.py"))
    plain = losses(observe(("--device=npu", "--level=op", "--events=alloc,free"), "kernels.py"))
    assert len(observed) == 3
    assert observed == plain
