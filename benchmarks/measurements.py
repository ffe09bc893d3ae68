"""The measurements: each with its peer, and with the figure that is promised."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from analysis_speed import analyses_of_csv, analyses_of_database, analyses_of_event_log, comparisons, exit_work
from archive_speed import archive_speed
from cluster_speed import answer_speed, summary_speed
from cuda_cost import CUDA_MEASUREMENTS
from export_speed import export_speed
from measuring import Measurement, MeasurementError, Target, Variant, python, tool
from picture_speed import PICTURE_MEASUREMENTS
from watch_speed import WATCH_MEASUREMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

MEMRAY = (sys.executable, "-m", "memray", "run", "--quiet", "--force", "--output={scratch}/memray.bin")
VIZTRACER = (sys.executable, "-m", "viztracer", "--quiet", "--output_file={scratch}/viztracer.json")

ALONE, OURS = "no tool", "msmemscope"
FIVE_ADDED = Target("at most 5 added", lambda medians: medians[OURS] - medians[ALONE] <= 5)

LIVE_BLOCKS = (0, 1_000, 100_000)
"""Tensors alive while operators are measured: the cost must not depend on their number."""


def allocation_cost() -> Measurement:
    """One alloc+free pair of a CPU tensor, 12 Python frames deep."""
    loop = python("allocation_loop")
    alone, without_stacks = "no tool", "msmemscope, no stacks"
    # memray takes the stack of allocations; --call-stack takes that of frees as well. By default there are only the
    # stacks of allocations, for the summary.
    allocations_only, with_stacks = "msmemscope, stacks of allocations", "msmemscope, stacks of allocations and frees"
    memray = "memray"
    half = "at most half of what memray adds"

    def added(medians: dict[str, float], name: str) -> float:
        return medians[name] - medians[alone]

    return Measurement(
        name="allocation",
        unit="ns per alloc+free pair",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(without_stacks, (*tool("--events=alloc,free", "--call-stack="), *loop), log_figures),
            Variant(allocations_only, (*tool("--events=alloc,free"), *loop)),
            Variant(with_stacks, (*tool("--events=alloc,free", "--call-stack=python:12"), *loop), log_figures),
            Variant(memray, (*MEMRAY, *loop[1:])),
            Variant(
                "msmemscope, Python and native stacks",
                (*tool("--events=alloc,free", "--call-stack=python:12,c:50"), *loop),
            ),
            Variant("memray --native", (*MEMRAY, "--native", *loop[1:])),
        ),
        targets={
            without_stacks: Target("at most 200 added", lambda medians: added(medians, without_stacks) <= 200),
            allocations_only: Target(
                half, lambda medians: 2 * added(medians, allocations_only) <= added(medians, memray)
            ),
            with_stacks: Target(half, lambda medians: 2 * added(medians, with_stacks) <= added(medians, memray)),
        },
    )


def thread_cost(threads: int) -> Measurement:
    """One alloc+free pair without Python, while other threads do the same."""
    loop = python("thread_loop", f"--threads={threads}")
    alone, ours = "no tool", "msmemscope, no stacks"
    return Measurement(
        name=f"allocation, {threads} {'thread' if threads == 1 else 'threads'}",
        unit="ns per alloc+free pair of all threads together",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(ours, (*tool("--events=alloc,free", "--call-stack="), *loop), nothing_is_lost),
        ),
        targets={ours: Target("at most 120 added", lambda medians: medians[ours] - medians[alone] <= 120)},
    )


def sampled_cost(name: str, unit: str, workload: str, target: Target) -> Measurement:
    """The cost of sampling of host memory, with its defaults, for a workload."""
    loop = python(workload)
    return Measurement(
        name=name,
        unit=unit,
        reference=ALONE,
        variants=(
            Variant(ALONE, loop),
            Variant(OURS, (*tool(), *loop)),
            Variant("msmemscope, no samples", (*tool("--host=off"), *loop)),
            Variant("memray", (*MEMRAY, *loop[1:])),
        ),
        targets={OURS: target},
    )


def heap_cost() -> Measurement:
    """One pair of malloc and free of 64 bytes, whose calls are redirected so that host memory is sampled."""
    return sampled_cost("host heap", "ns per malloc+free pair", "heap_loop", FIVE_ADDED)


def object_cost() -> Measurement:
    """One Python object."""
    return sampled_cost("Python objects", "ns per object", "object_loop", FIVE_ADDED)


def serving_cost() -> Measurement:
    """One request to a served model."""
    target = Target("at most 1.02 of alone", lambda medians: medians[OURS] <= 1.02 * medians[ALONE])
    return sampled_cost("served model", "us per request", "serving_loop", target)


def nothing_is_lost(scratch: Path) -> dict[str, float]:
    """Bytes per event of the log of a run that must have recorded everything."""
    from msmemscope.formats.event_log import Capture

    header = Capture(next(scratch.glob("msmemscope_*_ascend"))).header
    lost = header.dropped_reentrant + header.dropped_failure + header.untracked_blocks
    if lost:
        message = f"{lost} events were lost"
        raise MeasurementError(message)
    return log_figures(scratch)


def operator_cost(alive: int, *, views: bool) -> Measurement:
    """One torch.add with the launch and access events of the collector."""
    loop = python("operator_loop", f"--alive={alive}", *(["--views"] if views else []))
    alone, empty, ours = "no tool", "empty TorchDispatchMode", "msmemscope, launch and access"
    return Measurement(
        name=f"operator, {alive} blocks alive{', views' if views else ''}",
        unit="us per torch.add",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(empty, (*loop, "--empty-mode")),
            Variant(ours, (*tool("--events=alloc,free,launch,access", "--call-stack="), *loop)),
            Variant(
                "msmemscope, with Python stacks",
                (*tool("--events=alloc,free,launch,access", "--call-stack=python"), *loop),
            ),
        ),
        targets={ours: Target("at most what an empty mode adds", lambda medians: medians[ours] <= medians[empty])},
    )


def trace_cost() -> Measurement:
    """One traced call of a Python function."""
    loop = python("call_loop")
    alone, ours, viztracer = "no tool", "msmemscope --events=traceback", "viztracer"
    return Measurement(
        name="Python trace",
        unit="ns per call",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(ours, (*tool("--events=traceback"), *loop)),
            Variant(viztracer, (*VIZTRACER, "--", *loop[1:])),
        ),
        targets={
            ours: Target(
                "at most 0.8 of what viztracer adds",
                lambda medians: medians[ours] - medians[alone] <= 0.8 * (medians[viztracer] - medians[alone]),
            )
        },
    )


def import_cost() -> Measurement:
    """`import msmemscope` in a fresh interpreter, compared with an import of a small standard module."""
    code = "import time; b = time.perf_counter_ns(); import {0}; e = time.perf_counter_ns(); print('{{\"value\": %f}}' % ((e - b) / 1e6))"

    def importing(name: str) -> tuple[str, ...]:
        return (sys.executable, "-c", code.format(name))

    ours = "import msmemscope"
    return Measurement(
        name="import",
        unit="ms",
        reference="import argparse",
        variants=(
            Variant("import argparse", importing("argparse")),
            Variant(ours, importing("msmemscope")),
            Variant("import numpy", importing("numpy")),
        ),
        targets={ours: Target("below 30", lambda medians: medians[ours] < 30)},
    )


def timed(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command line that runs another to its end and prints how many milliseconds that took, and of the processor."""
    code = "import json, resource, subprocess, sys, time; begin = time.perf_counter(); "
    code += "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    code += "wall = time.perf_counter() - begin; used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    code += "print(json.dumps({'value': wall * 1e3, 'processor_ms': (used.ru_utime + used.ru_stime) * 1e3}))"
    return (sys.executable, "-c", code, *command)


def launch_cost() -> Measurement:
    """From the command to the program's first line and back, with nothing to report."""
    program = (sys.executable, "-c", "import time")
    alone, ours = "no tool", "msmemscope"
    return Measurement(
        name="launch",
        unit="ms for a program that does nothing",
        reference=alone,
        variants=(
            Variant(alone, timed(program)),
            Variant(ours, timed((*tool(), *program))),
            Variant("memray", timed((*MEMRAY, *program[1:]))),
        ),
        targets={ours: Target("at most 0.3 of memray", lambda medians: medians[ours] <= 0.3 * medians["memray"])},
    )


def training_run_cost() -> Measurement:
    """A training with the Trainer of transformers, from the command to its end: imports, results and all."""
    program = python("trainer_run")
    alone, ours = "no tool", "msmemscope"
    return Measurement(
        name="whole training",
        unit="ms from the command to its end",
        reference=alone,
        variants=(
            Variant(alone, timed(program)),
            Variant(ours, timed((*tool(), *program))),
            Variant("memray", timed((*MEMRAY, *program[1:]))),
        ),
        targets={ours: Target("at most 1.03 times", lambda medians: medians[ours] <= 1.03 * medians[alone])},
    )


def loading_cost() -> Measurement:
    """A library that is opened and closed again, in a process with the libraries of torch."""
    loop = python("loading_loop")
    alone, ours = "no tool", "msmemscope"
    return Measurement(
        name="loading",
        unit="us per dlopen and dlclose",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(ours, (*tool(), *loop)),
            Variant("memray", (*MEMRAY, *loop[1:])),
        ),
        targets={ours: Target("at most 1.5 times", lambda medians: medians[ours] <= 1.5 * medians[alone])},
    )


def log_figures(scratch: Path) -> dict[str, float]:
    """Bytes per event of the log, and the tool's memory inside the process, from the one capture of a run."""
    from msmemscope.formats.event_log import Capture

    capture = Capture(next(scratch.glob("msmemscope_*_ascend")))
    events = capture.event_count()
    log = capture.directory / "event_log"

    def size_of(pattern: str) -> int:
        return sum(path.stat().st_size for path in log.glob(pattern))

    return {
        "event log bytes per event": size_of("events_*.segment") / events,
        "definition bytes per event": size_of("definitions_*.segment") / events,
        "tool memory bytes": capture.header.tool_memory_bytes,
        "tool memory limit bytes": capture.header.tool_memory_limit_bytes,
    }


TORCH_NPU = Path(sys.prefix) / "torch_npu"
"""Where the Makefile puts torch_npu: beside site-packages, so that the CPU's `import torch` does not load it."""


def on_virtual_npu(*settings: str) -> tuple[str, ...]:
    """The beginning of a command line that runs what follows on a virtual NPU."""
    path = f"PYTHONPATH={TORCH_NPU}"
    return ("env", path, "TORCH_NPU_WARNING_DISABLE=1", *settings, sys.executable, "-m", "virtual_npu", "run", "--")


def virtual_npu_cost(operation: str) -> Measurement:
    """One call of an operator on the virtual NPU, synchronised at the end of the loop, against torch on the CPU."""
    queues = ("0", "1", "2")
    return Measurement(
        name=f"virtual NPU, {operation}",
        unit="us per call",
        reference="CPU",
        variants=(
            Variant("CPU", python("device_loop", "--device=cpu", f"--operation={operation}")),
            *(
                Variant(
                    f"virtual NPU, TASK_QUEUE_ENABLE={queue}",
                    (
                        *on_virtual_npu(f"TASK_QUEUE_ENABLE={queue}"),
                        *python("device_loop", "--device=npu", f"--operation={operation}"),
                    ),
                )
                for queue in queues
            ),
        ),
    )


def npu_allocation_cost() -> Measurement:
    """One alloc+free pair of an NPU tensor, 12 Python frames deep, beside the recorder that torch_npu has built in."""
    loop = python("allocation_loop", "--device=npu")
    alone, without_stacks, with_stacks = "no tool", "msmemscope, no stacks", "msmemscope, Python stacks"
    recorder, recorder_with_stacks = "torch_npu's recorder, no stacks", "torch_npu's recorder, Python stacks"
    with_entries = "msmemscope, no stacks, the allocator's entries"
    nothing_done = "an empty tool that torch_npu reports to"
    half = "at most half of what the recorder adds"
    observed = (sys.executable, "-m", "msmemscope", "--device=npu", "--log-level=error", "--output={scratch}")

    def holds(name: str, peer: str) -> Callable[[dict[str, float]], bool]:
        return lambda medians: 2 * (medians[name] - medians[alone]) <= medians[peer] - medians[alone]

    return Measurement(
        name="npu allocation",
        unit="ns per alloc+free pair",
        reference=alone,
        variants=(
            Variant(alone, (*on_virtual_npu(), *loop)),
            Variant(recorder, (*on_virtual_npu(), *loop, "--recorder=events")),
            Variant(nothing_done, (*on_virtual_npu(), *python("with_empty_tool"), *loop)),
            Variant(
                without_stacks, (*on_virtual_npu(), *observed, "--events=alloc,free", "--call-stack=", "--", *loop)
            ),
            Variant(
                with_entries,
                (*on_virtual_npu(), *observed, "--events=allocator", "--call-stack=", "--", *loop),
                log_figures,
            ),
            Variant(recorder_with_stacks, (*on_virtual_npu(), *loop, "--recorder=stacks")),
            Variant(
                with_stacks,
                (*on_virtual_npu(), *observed, "--events=alloc,free", "--call-stack=python:12", "--", *loop),
            ),
        ),
        targets={
            without_stacks: Target(half, holds(without_stacks, recorder)),
            with_entries: Target(
                "entries at most half of what the recorder adds",
                lambda medians: (
                    2 * (medians[with_entries] - medians[without_stacks]) <= medians[recorder] - medians[alone]
                ),
            ),
            with_stacks: Target(half, holds(with_stacks, recorder_with_stacks)),
        },
    )


def npu_operator_cost() -> Measurement:
    """One torch.add of NPU tensors with launch and access events: what the thread that calls it works."""
    loop = python("operator_loop", "--device=npu", "--calls=5000")
    observed = (sys.executable, "-m", "msmemscope", "--device=npu", "--log-level=error", "--output={scratch}")
    alone, empty, ours = "no tool", "empty TorchDispatchMode", "msmemscope, launch and access"
    events = ("--events=alloc,free,launch,access", "--call-stack=")
    return Measurement(
        name="npu operator",
        unit="us of processor time per torch.add",
        reference=alone,
        variants=(
            Variant(alone, (*on_virtual_npu(), *loop)),
            Variant(empty, (*on_virtual_npu(), *loop, "--empty-mode")),
            Variant(ours, (*on_virtual_npu(), *observed, *events, "--", *loop)),
        ),
        targets={ours: Target("at most what an empty mode adds", lambda medians: medians[ours] <= medians[empty])},
    )


def npu_training_cost() -> Measurement:
    """One step of a small MLP on the virtual NPU: default options in both formats, then accesses with stacks."""
    loop = python("mlp_steps")
    observed = (sys.executable, "-m", "msmemscope", "--device=npu", "--log-level=error", "--output={scratch}")
    alone, by_default, to_database = "no tool", "msmemscope", "msmemscope, db"
    everything = "msmemscope, access and Python stacks"

    def at_most(times: int, name: str) -> Target:
        return Target(f"at most {times} times", lambda medians: medians[name] <= times * medians[alone])

    return Measurement(
        name="npu training step",
        unit="ms per step",
        reference=alone,
        variants=(
            Variant(alone, (*on_virtual_npu(), *loop)),
            Variant(by_default, (*on_virtual_npu(), *observed, "--", *loop)),
            Variant(to_database, (*on_virtual_npu(), *observed, "--data-format=db", "--", *loop)),
            Variant(
                everything,
                (
                    *on_virtual_npu(),
                    *observed,
                    "--events=alloc,free,launch,access",
                    "--call-stack=python:10",
                    "--",
                    *loop,
                ),
            ),
        ),
        targets={
            by_default: at_most(2, by_default),
            to_database: at_most(2, to_database),
            everything: at_most(3, everything),
        },
    )


def virtual_npu_import() -> Measurement:
    """Importing torch with torch_npu on the virtual NPU, against torch alone."""
    program = "import json, time; begin = time.perf_counter(); import torch; print(json.dumps({'value': "
    program += "time.perf_counter() - begin}))"
    return Measurement(
        name="virtual NPU, import torch",
        unit="seconds",
        reference="torch",
        variants=(
            Variant("torch", (sys.executable, "-c", program)),
            Variant("torch and torch_npu", (*on_virtual_npu(), sys.executable, "-c", program)),
        ),
    )


MEASUREMENTS: tuple[Callable[[], Measurement], ...] = (
    allocation_cost,
    heap_cost,
    object_cost,
    serving_cost,
    *(lambda threads=threads: thread_cost(threads) for threads in (1, 2, 4, 8, 16)),
    *(lambda alive=alive: operator_cost(alive, views=False) for alive in LIVE_BLOCKS),
    lambda: operator_cost(1_000, views=True),
    trace_cost,
    import_cost,
    launch_cost,
    training_run_cost,
    loading_cost,
    lambda: export_speed("csv"),
    lambda: export_speed("db"),
    archive_speed,
    summary_speed,
    answer_speed,
    exit_work,
    analyses_of_csv,
    analyses_of_database,
    comparisons,
    analyses_of_event_log,
    *PICTURE_MEASUREMENTS,
    *WATCH_MEASUREMENTS,
    *(lambda operation=operation: virtual_npu_cost(operation) for operation in ("empty", "add", "matmul")),
    virtual_npu_import,
    npu_allocation_cost,
    npu_operator_cost,
    npu_training_cost,
    *CUDA_MEASUREMENTS,
)
