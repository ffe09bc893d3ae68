"""Programs with torch that are looked at by instruments of their own."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import subprocess
import sys
import threading
import tracemalloc

import torch
from torch_cases.training import loss_of


def measured_coverage(device: str) -> None:
    """coverage: the lines and branches of a training that were reached."""
    import coverage
    from torch_cases import training

    measured = coverage.Coverage(data_file=None, config_file=False, branch=True, include=[training.__file__])
    with measured.collect():
        print(loss_of(device))
    data = measured.get_data()
    print([(sorted(data.lines(file) or []), sorted(data.arcs(file) or [])) for file in sorted(data.measured_files())])


def traced_lines(device: str) -> None:
    """sys.settrace and threading.settrace: every line of a training, in two threads."""
    seen: list[tuple[str, int]] = []

    def trace(frame: object, event: str, _: object) -> object:
        if frame.f_code is loss_of.__code__:  # type: ignore[attr-defined]
            seen.append((event, frame.f_lineno))  # type: ignore[attr-defined]
            return trace
        return None

    threading.settrace(trace)  # type: ignore[arg-type]
    sys.settrace(trace)  # type: ignore[arg-type]
    first = loss_of(device)
    thread = threading.Thread(target=loss_of, args=(device,))
    thread.start()
    thread.join()
    print(sys.gettrace() is trace)
    sys.settrace(None)
    print(first, seen)


def profiled_calls(device: str) -> None:
    """sys.setprofile: the calls of the interpreter's own functions and of C functions that a training makes itself."""
    counts: dict[str, int] = {}

    def profile(frame: object, event: str, argument: object) -> None:
        if frame.f_code is loss_of.__code__:  # type: ignore[attr-defined]
            name = f"{event} {getattr(argument, '__name__', '')}"
            counts[name] = counts.get(name, 0) + 1

    sys.setprofile(profile)
    result = loss_of(device)
    print(sys.getprofile() is profile)
    sys.setprofile(None)
    print(result, sorted(counts.items()))


def torch_profiler(device: str) -> None:
    """torch.profiler: the operators that ran."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        print(loss_of(device))
    # How often is not compared: where a dispatch mode is on, as the tool's is, the profiler counts an operator twice.
    print(sorted(event.key for event in profiler.key_averages() if event.key.startswith("aten::")))


def memray_inside(device: str) -> None:
    """Memray's tracker inside the program: a readable recording of the same training."""
    import memray

    with memray.Tracker("recording.bin", native_traces=True):
        block = ctypes.create_string_buffer(123_457)
        print(loss_of(device), len(block))
    records = list(memray.FileReader("recording.bin").get_high_watermark_allocation_records())
    print(sum(record.n_allocations for record in records if record.size == 123_457))


def tracemalloc_inside(device: str) -> None:
    """tracemalloc: where Python's own memory was allocated."""
    tracemalloc.start(5)
    kept = [bytes(1000 + number) for number in range(100)]
    result = loss_of(device)
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
    tracemalloc.stop()
    print(result, len(kept), [statistic.size > 100_000 for statistic in snapshot.statistics("lineno")[:1]])


def attached_py_spy(device: str) -> None:
    """py-spy attaches from outside and finds every thread in its own function."""
    pr_set_ptracer, anyone = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None).prctl(pr_set_ptracer, anyone, 0, 0, 0)
    is_over = threading.Event()

    def named_function() -> None:
        is_over.wait()

    thread = threading.Thread(target=named_function, name="waiting")
    thread.start()
    before = loss_of(device)
    command = ["py-spy", "dump", "--pid", str(os.getpid())]
    dump = subprocess.run(command, capture_output=True, text=True, check=False)
    is_over.set()
    thread.join()
    found = [name in dump.stdout for name in ("attached_py_spy", "named_function", '"waiting"')]
    print(before == loss_of(device), dump.returncode, found)


def subinterpreters(device: str) -> None:
    """Interpreters beside the main one, which import and end between trainings of the main one."""
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found,no-redef]
    code = "import json, os, threading; os.write(1, (json.dumps([threading.active_count()]) + '\\n').encode())"
    print(loss_of(device), flush=True)
    made = [interpreters.create() for _ in range(5)]
    for one in made:
        interpreters.run_string(one, code)
        loss_of(device, 1)
        interpreters.destroy(one)
    print(len(interpreters.list_all()), loss_of(device))


def garbage_collector(device: str) -> None:
    """The collector's callbacks, finalizers and weak references, with tensors in cycles."""
    import weakref

    phases: list[str] = []
    gone: list[int] = []
    gc.callbacks.append(lambda phase, _: phases.append(phase))
    gc.disable()

    class Node:
        def __init__(self, number: int) -> None:
            self.tensor = torch.full((10,), float(number), device=device)
            self.itself = self
            weakref.finalize(self, gone.append, number)

    for number in range(50):
        Node(number)
    print(gc.collect() > 0, len(gone), phases)


def inspected_frames(device: str) -> None:
    """The frames that a program finds when it looks at its own stack, out of a backward hook."""
    found: list[str] = []
    x = torch.ones(3, device=device, requires_grad=True)
    (x * 2).register_hook(lambda grad: found.extend(frame.function for frame in inspect.stack()))
    y = (x * 3).sum()
    y.register_hook(lambda grad: found.extend(frame.function for frame in inspect.stack()))
    y.backward()
    print([name for name in found if not name.startswith("_")], threading.active_count(), sys.getrecursionlimit())


def imported_modules(device: str) -> None:
    """Standard streams, paths and modules as a program finds them; modules of the tool are its own."""
    print(loss_of(device), sys.argv, sys.flags, sys.stdout.encoding, sys.stderr.line_buffering)
    paths = [path for path in sys.path if "msmemscope" not in path]
    print(paths, sys.getswitchinterval(), gc.get_threshold(), sys.getdlopenflags())
