"""Runs the public tests of torch_npu's release on the virtual NPU: ``python -m tests.lanes.release_tests FOLDER [FILE ...]``.

release_tests.json lists the files, and which of their tests cannot pass. Each file runs in a process of its own,
without its listed tests. If a test leaves the device unusable, ends the process or takes too long, its process ends. A
new one goes on after that test, so that no test fails because of another. Failed and listed tests then run once more,
each alone in a fresh process: that run counts.

A test that fails and is not listed fails the lane. So does a listed one that passes, is skipped, or is not there. Tests
that the release itself lists as disabled do not run, and are counted apart. A few tests that are too large for a CPU do
not run either.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

PLAN: Final = Path(__file__).with_name("release_tests.json")
REPOSITORY: Final = Path(__file__).parents[2]
RELEASE: Final = "f56ddc06ef6fc3d05866626a16d0526e9076f8e4"
WHERE_FROM: Final = f"""\
the tests of torch_npu's release 2.13.0 are needed, which are public:
  git init -q torch_npu_release && cd torch_npu_release
  git fetch --depth=1 https://github.com/Ascend/pytorch {RELEASE} && git checkout -q FETCH_HEAD -- test third_party/acl
hint: then make test-torch-npu TORCH_NPU_TESTS=/path/to/torch_npu_release/test
"""
DISABLED: Final = Path("unsupported_test_cases/.pytorch-disabled-tests.json")
"""The release's own list of tests that are not to be run."""

TEST_LIMIT_S: Final = 300
PROCESS_LIMIT_S: Final = 900

Outcome = Literal["passed", "failed", "skipped", "disabled"]
COLUMNS: Final = ("passed", "failed", "cannot pass", "skipped", "disabled")


@dataclass(frozen=True)
class Limit:
    """Tests that cannot pass for one reason.

    Attributes:
        whose: The owner of the limit: the test itself, torch_npu, CANN as documented, or the virtual NPU.
        reason: The reason in words.
        tests: The tests as pytest names them, from the folder of the tests.
    """

    whose: Literal["test", "torch_npu", "CANN", "virtual NPU"]
    reason: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The files to run and the tests in them that cannot pass, or are too large for a CPU and not run."""

    files: tuple[str, ...]
    limits: tuple[Limit, ...]
    too_large: frozenset[str]

    def listed(self, file: str) -> set[str]:
        """Return the tests of a file that cannot pass."""
        return {test for limit in self.limits for test in limit.tests if test.partition("::")[0] == file}


@dataclass
class FileResult:
    """The results of the tests of a file.

    Attributes:
        outcomes: The outcome of each test. A fault of the file itself, such as a failed import, is under the file's
            name.
        details: Why a test failed, in a line.
        listed: The tests that cannot pass.
    """

    file: str
    listed: set[str]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        """Return the number of tests in each column."""
        return Counter(
            "cannot pass" if outcome == "failed" and test in self.listed else outcome
            for test, outcome in self.outcomes.items()
        )

    def complaints(self) -> list[str]:
        """Return what fails the lane, a line each."""
        failures = [
            f"{test}: {self.details[test]}"
            for test, outcome in self.outcomes.items()
            if outcome == "failed" and test not in self.listed
        ]
        needless = [
            f"{test}: listed as one that cannot pass, but {self.outcomes.get(test, 'not there')}"
            for test in sorted(self.listed)
            if self.outcomes.get(test) != "failed"
        ]
        return failures + needless


def read_plan(file: Path = PLAN) -> Plan:
    """Return the plan that a file holds."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    return Plan(
        tuple(stored["files"]),
        tuple(Limit(limit["limit"], limit["reason"], tuple(limit["tests"])) for limit in stored["cannot pass"]),
        frozenset(stored["too large"]),
    )


class DisabledTests:
    """The release's list of disabled tests, matched as torch_npu's own test runner matches it."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Take entries such as ``test_add_npu_float64 (__main__.TestBinaryUfuncsPRIVATEUSE1)``."""
        self._classes: dict[str, set[str]] = {}
        for entry in entries:
            name, _, rest = entry.partition(" (")
            self._classes.setdefault(name, set()).add(rest.rstrip(")").rpartition(".")[2])

    def __contains__(self, item: pytest.Item) -> bool:
        """Tell whether a test is disabled: by its name, or its name without device and data type."""
        from torch.testing._internal.common_utils import remove_device_and_dtype_suffixes

        owner = item.parent.name.replace("PRIVATEUSE1", "NPU") if item.parent else ""
        names = {item.name, remove_device_and_dtype_suffixes(item.name)}
        return any(
            owner.startswith(disabled.replace("PRIVATEUSE1", "NPU"))
            for name in names
            for disabled in self._classes.get(name, ())
        )


class Reporter:
    """A plugin of pytest that chooses tests, and writes what becomes of each as a line of JSON at once."""

    def __init__(self, file: Path, only: Collection[str], leave: Collection[str], disabled: DisabledTests) -> None:
        """Run the tests of `only`, or where there are none all but those of `leave`."""
        self.file, self.only, self.leave, self.disabled = file, set(only), set(leave), disabled
        self.failure: str | None = None
        self.outcome: Outcome = "passed"

    def write(self, **line: str) -> None:
        """Add a line that is there even if the process ends now."""
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say why a file cannot be loaded."""
        if report.failed:
            self.write(test=report.nodeid, outcome="failed", detail=in_a_line(report.longreprtext))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are to be run."""
        chosen = []
        for item in items:
            if (item.nodeid in self.only) if self.only else (item.nodeid not in self.leave):
                if item in self.disabled:
                    self.write(test=item.nodeid, outcome="disabled")
                else:
                    chosen.append(item)
        items[:] = chosen

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Name the test that the process will have ended in if no outcome follows."""
        self.failure, self.outcome = None, "passed"
        self.write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a phase of a test: it fails if one does."""
        if report.failed:
            self.failure = self.failure or in_a_line(report.longreprtext)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.outcome = "skipped"

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the outcome."""
        if self.failure is None:
            self.write(test=nodeid, outcome=self.outcome)
        else:
            self.write(test=nodeid, outcome="failed", detail=self.failure)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End the process behind a test that left the device unusable: whatever followed would fail too."""
        if self.failure is not None and not device_computes():
            item.session.shouldstop = "the device computes no more"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Say that no test is left."""
        if not session.shouldstop:
            self.write(complete="yes")


def device_computes() -> bool:
    """Return whether the device of this process, if it has used it, still gives results."""
    import torch

    if not torch.npu.is_initialized():
        return True
    try:
        return bool(torch.arange(5, device="npu").sum().item() == sum(range(5)))
    except RuntimeError:
        return False


def in_a_line(text: str) -> str:
    """Return the line of a traceback by pytest that says what went wrong."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    said = next((line for line in lines if line), text.strip().rpartition("\n")[2])
    return said[:240]


def run_here(request: dict[str, Any]) -> int:
    """Run tests of a file in this process, on its virtual NPU."""
    disabled = DisabledTests(json.loads(DISABLED.read_text(encoding="utf-8")))
    reporter = Reporter(Path(request["results"]), request["only"], request["leave"], disabled)
    options = ["-q", "--rootdir=.", f"--config-file={os.devnull}", "-pno:cacheprovider", "-pno:xdist", "-pno:randomly"]
    limits = [f"--timeout={TEST_LIMIT_S}", "--timeout-method=thread"]
    return int(pytest.main([*options, *limits, request["file"]], plugins=[reporter]))


def read_results(lines: Iterable[str], result: FileResult) -> bool:
    """Add what a process wrote to the results, and return whether it ran all that it was to run."""
    started = None
    complete = False
    for line in map(json.loads, lines):
        if "started" in line:
            started = line["started"]
        elif "test" in line:
            started = None
            result.outcomes[line["test"]] = line["outcome"]
            if "detail" in line:
                result.details[line["test"]] = line["detail"]
        complete |= "complete" in line
    if started is not None:
        result.outcomes[started] = "failed"
        result.details[started] = f"the process ended in it, or it took more than {TEST_LIMIT_S} s"
    return complete


def run_apart(folder: Path, result: FileResult, only: Collection[str] = (), leave: Collection[str] = ()) -> bool:
    """Run tests of a file in a process of its own, and return whether it ran all that it was to run."""
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.jsonl"
        results.touch()
        request = {"file": result.file, "only": sorted(only), "leave": sorted(leave), "results": str(results)}
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(REPOSITORY)])
        command = [
            sys.executable,
            "-m",
            "virtual_npu",
            "run",
            "--",
            sys.executable,
            "-m",
            "tests.lanes.release_tests",
            "--here",
        ]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": place},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(request), timeout=PROCESS_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass  # its lines so far say how far it came
        finally:
            end_group(process)
        return read_results(results.read_text(encoding="utf-8").splitlines(), result)


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process and the children that it left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def run_file(folder: Path, file: str, listed: set[str], left_out: frozenset[str] = frozenset()) -> FileResult:
    """Run the tests of a file: together, and then each that failed or is listed by itself."""
    result = FileResult(file, listed)
    known = -1
    complete = False
    while not complete and len(result.outcomes) > known:
        known = len(result.outcomes)
        complete = run_apart(folder, result, leave=listed | left_out | result.outcomes.keys())
    if not complete:
        result.outcomes[file] = "failed"
        result.details.setdefault(file, "the process ends before a test begins")
    failed = {test for test, outcome in result.outcomes.items() if outcome == "failed" and "::" in test}
    for test in sorted(failed | listed):
        result.outcomes.pop(test, None)
        run_apart(folder, result, only={test})
    return result


def table(results: Iterable[FileResult], width: int) -> Iterator[str]:
    """Yield the counts of each file as a line, and those in total."""
    total: Counter[str] = Counter()
    yield "file".ljust(width) + "".join(column.rjust(13) for column in COLUMNS)
    for result in results:
        counts = result.counts()
        total += counts
        yield result.file.ljust(width) + "".join(str(counts[column]).rjust(13) for column in COLUMNS)
    yield "in total".ljust(width) + "".join(str(total[column]).rjust(13) for column in COLUMNS)
    finished = sum(total[column] for column in COLUMNS[:3])
    share = f"{total['passed'] / finished:.1%}" if finished else "none"
    yield f"of {finished} tests that ran, {share} passed"


def main(folder: Path, chosen: Sequence[str]) -> int:
    """Run the chosen files or all of the plan, print the results, and return the exit status."""
    plan = read_plan()
    files = chosen or plan.files
    absent = [name for name in (*files, str(DISABLED)) if not (folder / name).is_file()]
    if absent:
        print(f"{folder} has no {', '.join(absent)}", file=sys.stderr)  # noqa: T201
        print(WHERE_FROM, end="", file=sys.stderr)  # noqa: T201
        return 2
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(run_file, folder, file, plan.listed(file), plan.too_large) for file in files]
        for line in table((one.result() for one in running), max(map(len, files))):
            print(line, flush=True)  # noqa: T201
    results = [one.result() for one in running]
    for limit in plan.limits:
        count = sum(result.outcomes.get(test) == "failed" for result in results for test in limit.tests)
        if count:
            print(f"cannot pass: {count} ({limit.whose}: {limit.reason})")  # noqa: T201
    print(f"too large for a CPU, and not run: {len(plan.too_large)}")  # noqa: T201
    complaints = [line for result in results for line in result.complaints()]
    print("\n".join(complaints))  # noqa: T201
    return 1 if complaints else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        raise SystemExit(run_here(json.load(sys.stdin)))
    if len(sys.argv) < 2 or not sys.argv[1]:
        raise SystemExit(WHERE_FROM.rstrip())
    raise SystemExit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
