"""The views that people look at: the report, the viewer and `live`, beside the pages of memray and of memory_viz.

Run by itself it prints its tables: `python benchmarks/picture_speed.py [--repeats N]`. The page of memory_viz loads its
script from the network, so of it only the making of the file is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import http
import json
import os
import pty
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from analysis_speed import INPUTS, MILLION, input_path
from measuring import WORKLOADS, Measurement, MeasurementError, Target, Variant, measure, table, tool

sys.path.append(str(Path(__file__).parents[1]))
from tests.support.browser import BrowserPage, find_browser
from tests.support.viewer import RunningViewer, running_viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUESTIONS: Final = 400
_RECTANGLES: Final = 100_000
_PAIRS: Final = 500_000
_FOLLOWED_PAIRS: Final = 4_000_000
_RESIDENT: Final = "VmRSS"


def pages_of_a_run() -> Measurement:
    """The file that people open, made of one run of 500,000 allocations with their stacks."""
    ours, memray, memory_viz = "msmemscope report", "memray flamegraph --temporal", "memory_viz, trace_plot"
    return _measurement(
        f"page of a run of {_PAIRS:,} allocations",
        "s",
        memray,
        {memray: "memray", memory_viz: "memory-viz", ours: "report"},
        {ours: Target("at most memray's", lambda medians: medians[ours] <= medians[memray])},
    )


def pages_of_ten_million_events() -> Measurement:
    """The report and the index of the viewer, of 10,000,000 events."""
    report, index = "msmemscope report", "index of the viewer"
    return _measurement(
        "page of 10,000,000 events",
        "s",
        report,
        {report: "long-report", index: "index"},
        {
            report: Target("at most 20 s", lambda medians: medians[report] <= 20),
            index: Target("at most 60 s", lambda medians: medians[index] <= 60),
        },
    )


def viewer_answers() -> Measurement:
    """The viewer's answers about windows, moments and filters of 10,000,000 events, beside asking a table of its blocks."""
    ours = "viewer, 95th percentile"
    peer = "Polars, blocks in use at a moment"
    return _measurement(
        "answer about 10,000,000 events",
        "ms",
        peer,
        {peer: "scan", ours: "answers"},
        {ours: Target("at most 100 ms", lambda medians: medians[ours] <= 100)},
    )


def panned_rectangles() -> Measurement:
    """Frames while 100,000 blocks are panned in headless Chromium, whose graphics are drawn by the processor."""
    ours = "viewer"
    return _measurement(
        f"panning {_RECTANGLES:,} blocks",
        "frames/s",
        ours,
        {ours: "frames"},
        {ours: Target("at least 30", lambda medians: medians[ours] >= 30)},
    )


def followed_loop() -> Measurement:
    """An alloc+free pair of a program that `live` follows, as fast as the program can."""
    alone, followed = "nobody follows", "live follows"
    return _measurement("followed by live", "ns per alloc+free pair", alone, {alone: "alone", followed: "followed"}, {})


PICTURE_MEASUREMENTS = (
    pages_of_a_run,
    pages_of_ten_million_events,
    viewer_answers,
    panned_rectangles,
    followed_loop,
)


def _measurement(
    name: str, unit: str, reference: str, variants: dict[str, str], targets: dict[str, Target]
) -> Measurement:
    script = (sys.executable, str(Path(__file__).resolve()))
    return Measurement(
        name, unit, tuple(Variant(one, (*script, f"--run={run}")) for one, run in variants.items()), reference, targets
    )


def recorded_loop() -> Path:
    """A folder with the same loop recorded by us, exported as a snapshot, and recorded by memray; made once."""
    folder = INPUTS / f"loop-{_PAIRS}"
    if folder.exists():
        return folder
    INPUTS.mkdir(parents=True, exist_ok=True)
    loop = [str(WORKLOADS / "allocation_loop.py"), f"--pairs={_PAIRS}"]
    with tempfile.TemporaryDirectory(dir=INPUTS) as scratch:
        made = Path(scratch) / "input"
        made.mkdir()
        observed = [word.replace("{scratch}", str(made)) for word in tool("--events=alloc,free")]
        _quietly([*observed, sys.executable, *loop])
        (capture,) = made.glob("msmemscope_*_ascend")
        capture.rename(made / "capture")
        export = ["export", str(made / "capture"), "--to=torch-snapshot", f"-o={made / 'run.pickle'}"]
        _quietly([sys.executable, "-m", "msmemscope", *export])
        _quietly([sys.executable, "-m", "memray", "run", "-q", "-o", str(made / "memray.bin"), *loop])
        made.rename(folder)
    return folder


def _quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_page(run: str) -> dict[str, float]:
    """Write the page of a run in a process of its own; return what it took."""
    page = Path("page.html")
    if run == "long-report":
        command = ["-m", "msmemscope", "report", str(input_path("event-log", 10 * MILLION, 0.0)), f"-o={page}"]
    elif run == "report":
        command = ["-m", "msmemscope", "report", str(recorded_loop() / "capture"), f"-o={page}"]
    elif run == "memray":
        command = ["-m", "memray", "flamegraph", "--temporal", f"-o={page}", str(recorded_loop() / "memray.bin")]
    else:
        command = ["-m", "torch.cuda._memory_viz", "trace_plot", str(recorded_loop() / "run.pickle"), f"-o={page}"]
    begin = time.perf_counter()
    _quietly([sys.executable, *command])
    seconds = time.perf_counter() - begin
    return {"value": seconds, "peak memory MiB": _peak_of_children(), "page MiB": page.stat().st_size / 2**20}


def make_index() -> dict[str, float]:
    """Make the viewer's index of ten million events; return what it took."""
    path = input_path("event-log", 10 * MILLION, 0.0)
    begin = time.perf_counter()
    with running_viewer(Path("cache").absolute(), path) as viewer:
        seconds = time.perf_counter() - begin
        viewer.content("session")
    size = sum(file.stat().st_size for file in Path("cache").absolute().rglob("*") if file.is_file())
    return {"value": seconds, "peak memory MiB": _peak_of_children(), "index MiB": size / 2**20}


def _peak_of_children() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def ask_viewer() -> dict[str, float]:
    """Ask a viewer that has its index already; return the 95th percentile, and what else was seen."""
    path = input_path("event-log", 10 * MILLION, 0.0)
    cache = INPUTS / "viewer-cache"
    with running_viewer(cache, path):
        pass
    begin = time.perf_counter()
    with running_viewer(cache, path) as viewer:
        process = viewer.content("session")["processes"][0]
        viewer.content("memory?process=0&pool=0&columns=1000&by=owner")
        first_s = time.perf_counter() - begin
        times = sorted(_timed(viewer, question) for question in _questions(process))
        status = Path(f"/proc/{viewer.process.pid}/status").read_text(encoding="ascii")
        resident = next(line for line in status.splitlines() if line.startswith(_RESIDENT))
    return {
        "value": times[len(times) * 95 // 100] * 1e3,
        "median ms": statistics.median(times) * 1e3,
        "longest ms": times[-1] * 1e3,
        "first picture's data s": first_s,
        "resident MiB": int(resident.split()[1]) / 1024,
    }


def _timed(viewer: RunningViewer, question: str) -> float:
    begin = time.perf_counter()
    status, _, content = viewer.get(f"api/{question}")
    if status != http.HTTPStatus.OK:
        message = f"{question}: {content[:200]!r}"
        raise MeasurementError(message)
    return time.perf_counter() - begin


def _questions(process: dict[str, Any]) -> Iterator[str]:
    """The questions that a user's hand asks: windows of every width, moments, filters."""
    chance = np.random.default_rng(1)
    length = process["axis"]["length"]["time"]
    rows = process["axis"]["length"]["events"]
    for number in range(_QUESTIONS):
        width = length / 10 ** chance.uniform(0, 5)
        begin = chance.uniform(0, length - width)
        window = f"process=0&pool=0&from={int(begin)}&to={int(begin + width)}"
        row = f"process=0&pool=0&row={chance.integers(rows)}"
        by = chance.choice(process["groupings"])
        yield (
            f"memory?{window}&columns=1000&by={by}",
            f"blocks?{window}&layout=address&most=20000&colour=owner",
            f"blocks?{window}&layout=stacked&most=20000&colour=size",
            f"tree?{row}&measure=moment&by=stack",
            f"at?process=0&pool=0&axis=time&position={int(begin)}",
            f"table?process=0&table=blocks&offset={chance.integers(rows // 4)}&limit=100",
            f"tree?{window}&measure=churn&by=owner",
        )[number % 7]


def scan_blocks() -> dict[str, float]:
    """Find what was in use at moments by going through all blocks; return the 95th percentile."""
    import polars as pl

    from msmemscope.formats.reading import load

    path = input_path("event-log", 10 * MILLION, 0.0)
    blocks = load(next(path.glob("msmemscope_*_ascend"))).blocks.select(
        "malloc_sequence", "free_sequence", "size", "name_id"
    )
    chance = np.random.default_rng(1)
    times = []
    for _ in range(40):
        moment = int(chance.integers(10 * MILLION))
        begin = time.perf_counter()
        in_use = (pl.col("malloc_sequence") <= moment) & (pl.col("free_sequence") > moment)
        blocks.filter(in_use).group_by("name_id").agg(pl.col("size").sum())
        times.append(time.perf_counter() - begin)
    return {"value": sorted(times)[38] * 1e3, "median ms": statistics.median(times) * 1e3}


def pan() -> dict[str, float]:
    """Pan random rectangles in the page of a viewer; return the frames of a second."""
    browser = find_browser()
    if browser is None:
        message = "there is no Chromium"
        raise MeasurementError(message)
    with (
        running_viewer(Path("cache").absolute(), recorded_loop() / "capture") as viewer,
        BrowserPage(browser, Path("profile").absolute()) as page,
    ):
        page.open(viewer.address)
        page.value(
            "new Promise(resolve => { const wait = () => window.msmemscopeView ? resolve(1) : setTimeout(wait, 20); wait(); })"
        )
        page.value("msmemscopeView.idle()")
        rate = page.value(f"msmemscopeView.frames({_RECTANGLES})")
    return {"value": rate["perSecond"], "ms of a frame": rate["frameMs"], "fewest drawn in a frame": rate["drawn"]}


def follow(run: str) -> dict[str, float]:
    """Run the loop under the tool, and perhaps `live` on a terminal beside it; return the time of a pair."""
    output = Path("output").absolute()
    output.mkdir()
    command = [word.replace("{scratch}", str(output)) for word in tool("--events=alloc,free", "--call-stack=")]
    command += [sys.executable, str(WORKLOADS / "allocation_loop.py"), f"--pairs={_FOLLOWED_PAIRS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program, _live(output, run):
        text, _ = program.communicate()
    figures = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    return {"value": figures["value"]}


@contextlib.contextmanager
def _live(output: Path, run: str) -> Iterator[None]:
    if run != "followed":
        yield
        return
    while not any(output.glob("msmemscope_*_ascend/event_log/*.segment")):
        time.sleep(0.01)
    ours, theirs = pty.openpty()
    live = [sys.executable, "-m", "msmemscope", "live", str(output)]
    variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(live, stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as screen:
        os.close(theirs)
        try:
            yield
        finally:
            has_ended = screen.poll() is not None
            screen.kill()
            os.close(ours)
    if has_ended:
        message = "live has ended before the program"
        raise MeasurementError(message)


def run_of(name: str) -> dict[str, float]:
    """Do what is measured in the current folder, which is new, and return the figures."""
    if name == "index":
        return make_index()
    if name == "answers":
        return ask_viewer()
    if name == "scan":
        return scan_blocks()
    if name == "frames":
        return pan()
    if name in {"alone", "followed"}:
        return follow(name)
    return write_page(name)


def main() -> None:
    """Measure, or be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="fresh processes of each variant")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run_of(arguments.run)))
        return
    for make in PICTURE_MEASUREMENTS:
        print(table(measure(make(), arguments.repeats)), end="\n\n", flush=True)
    shutil.rmtree(INPUTS / "viewer-cache", ignore_errors=True)


if __name__ == "__main__":
    main()
