"""The pytest plugin in runs of pytest of their own."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import NIGHT, nightly
from tests.support.warm import WITH_TORCH, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.targets import Builder

pytestmark = pytest.mark.torch

IMPORTED = (*WITH_TORCH, "pytest", "polars")
"""Modules that every run of pytest imports, and further ones for runs that check memory."""

WORKERS = 2 if NIGHT else 1
"""Of pytest-xdist; each imports torch."""

NUMBER_OF_MANY = 200 if NIGHT else 60

IS_INSTALLED = any(point.value == "pytest_msmemscope" for point in importlib.metadata.entry_points(group="pytest11"))

TESTS = """
import pytest, torch

MIB = 1 << 20
kept = []

def allocate(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8)
"""
FIXTURES = """
@pytest.fixture(scope="module")
def resident():
    return allocate(5)

@pytest.fixture
def model():
    return torch.nn.Linear(8, 8)
"""


TESTS_WITHOUT_TORCH = """
import ctypes, pytest

MIB = 1 << 20
library = ctypes.CDLL(LIBRARY)
library.fake_tensor_allocate.restype = ctypes.c_void_p
library.fake_tensor_allocate.argtypes = [ctypes.c_size_t]
library.fake_tensor_free.argtypes = [ctypes.c_void_p]

class allocate:
    def __init__(self, mib):
        self.block = library.fake_tensor_allocate(mib * MIB)

    def __del__(self):
        library.fake_tensor_free(self.block)
"""


@pytest.fixture
def begin(target_builder: Builder) -> str:
    """How tests begin whose processes start anew: by day with the stand-in for torch's allocator, which is loaded in no time."""
    return TESTS if NIGHT else TESTS_WITHOUT_TORCH.replace("LIBRARY", repr(str(target_builder.library())))


def run_pytest(
    tmp_path: Path, tests: str, *options: str, launcher: tuple[str, ...] = (), begin: str = TESTS
) -> tool.ToolRun:
    """Run pytest on a file of tests."""
    folder = tmp_path / "suite"
    folder.mkdir(exist_ok=True)
    (folder / "test_memory.py").write_text(begin + FIXTURES + tests)
    plugin = () if IS_INSTALLED else ("-p", "pytest_msmemscope")
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options, f"--rootdir={folder}", folder)
    variables = {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    output = tmp_path / "output"
    if launcher:
        run = tool.run((*launcher, sys.executable, *words), output=output, variables=variables)
    else:
        run = run_python(words, output=output, variables=variables, modules=IMPORTED)
    assert not list(tmp_path.glob("msmemscope_*")), "the scratch folder was left behind"
    return run


def outcomes(run: tool.ToolRun) -> dict[str, int]:
    """The last line of pytest: `{"passed": 3, "failed": 1}`; warnings, as an editable installation makes one, left out."""
    assert "INTERNALERROR" not in run.stdout, run.stdout
    words = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last_line(run))}
    words.pop("warning", None)
    return words


def last_line(run: tool.ToolRun) -> str:
    """Without the time."""
    return run.stdout.strip().splitlines()[-1].partition(" in ")[0]


LIMITS = """
@pytest.mark.limit_device_memory("3 MiB")
def test_exactly_the_limit():
    allocate(2)
    both = allocate(1), allocate(2)

@pytest.mark.limit_device_memory(3 * MIB - 1)
def test_one_byte_too_much():
    one = allocate(1)
    two = allocate(2)

@pytest.mark.limit_device_memory("6 MiB")
def test_what_is_there_before_counts(resident):
    allocate(2)

@pytest.mark.limit_device_memory("1 MiB", device="npu")
def test_another_device():
    allocate(4)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_device_memory("1 MiB")
def test_expected_to_exceed():
    allocate(2)

@pytest.mark.limit_device_memory("1 MiB")
def test_that_fails_by_itself():
    allocate(2)
    assert False, "by itself"

def test_without_a_mark():
    allocate(50)
"""


def test_limits(tmp_path: Path) -> None:
    """The peak of the test function, to the byte, with what was in use before; the report names the lines."""
    run = run_pytest(tmp_path, LIMITS)
    assert outcomes(run) == {"passed": 3, "failed": 3, "xfailed": 1}, run.stdout
    assert "cpu (HOST): the peak of 3.00 MiB exceeds the limit of 3.00 MiB (3,145,728 > 3,145,727 bytes)" in run.stdout
    assert re.search(r"\n +3\.00 MiB +2 blocks +test_memory\.py\(8\): allocate\n", run.stdout)
    assert "the peak of 7.00 MiB exceeds the limit of 6.00 MiB" in run.stdout
    assert "in use before the test function: 5.00 MiB" in run.stdout
    assert "(no Python stack)" not in run.stdout, "fixtures are collected, too"
    assert "AssertionError: by itself" in run.stdout
    assert run.stderr == "", "no summary, no results: nobody asked for them"


LEAKS = """
class Node:
    pass

@pytest.mark.no_device_leaks
def test_cycles_are_no_leaks():
    node = Node()
    node.tensor, node.node = allocate(1), node

@pytest.mark.no_device_leaks
def test_that_leaks():
    kept.append(allocate(1))
    kept.append(allocate(2))

@pytest.mark.no_device_leaks
def test_what_hangs_on_fixtures_is_no_leak(model):
    model(torch.ones(2, 8)).sum().backward()

@pytest.mark.no_device_leaks
def test_what_fixtures_allocate_is_not_the_tests(resident):
    allocate(1)

@pytest.mark.no_device_leaks
def test_that_frees_what_others_left():
    kept.clear()

@pytest.mark.no_device_leaks(ignore=["*test_memory.py(*): fill_cache"])
def test_known_caches_can_be_ignored():
    def fill_cache():
        kept.append(torch.empty(100))
    fill_cache()

@pytest.mark.no_device_leaks
def test_a_failure_is_enough():
    kept.append(allocate(1))
    assert False
"""


def test_leaks(tmp_path: Path) -> None:
    """Blocks of the test function that are alive after its fixtures are gone."""
    run = run_pytest(tmp_path, LEAKS)
    assert outcomes(run) == {"passed": 6, "failed": 1, "error": 1}, run.stdout
    assert "ERROR at teardown of test_that_leaks" in run.stdout
    assert "cpu (HOST): 3.00 MiB in 2 blocks that the test function allocated are still alive" in run.stdout
    assert re.search(r"\n +3\.00 MiB +2 blocks +test_memory\.py\(8\): allocate\n", run.stdout)


OUT_OF_MEMORY = """
pytestmark = pytest.mark.limit_device_memory("1 GiB", device="cpu")

@pytest.fixture
def model():
    return [allocate(4)]

@pytest.fixture
def fixture_that_fails():
    held = torch.empty(3 * MIB, dtype=torch.uint8)
    return torch.empty(1 << 60, dtype=torch.uint8)

def test_fixture(fixture_that_fails):
    pass

def test_function(model):
    torch.empty(9 * MIB, dtype=torch.uint8)
    held = torch.empty(2 * MIB, dtype=torch.uint8)
    torch.empty(1 << 60, dtype=torch.uint8)

def test_that_catches_it_and_fails():
    with pytest.raises(RuntimeError):
        torch.empty(1 << 60, dtype=torch.uint8)
    assert False

def test_that_catches_it():
    with pytest.raises(RuntimeError):
        torch.empty(1 << 60, dtype=torch.uint8)

def test_that_fails_otherwise():
    assert False
"""


@pytest.mark.parametrize("options", [(), pytest.param(("-n", "2"), marks=nightly)])
def test_a_failure_for_lack_of_memory_shows_what_was_in_use(options: tuple[str, ...], tmp_path: Path) -> None:
    """At that moment, by line, memory of fixtures too; in fixtures as in functions, also by workers of pytest-xdist."""
    if options:
        pytest.importorskip("xdist")
    run = run_pytest(tmp_path, OUT_OF_MEMORY, *options)
    assert outcomes(run) == {"passed": 1, "failed": 3, "error": 1}, run.stdout
    assert run.stdout.count("out of memory on cpu: 1.00 EiB asked for") == 3
    # Tracebacks of tests that failed before keep memory, too: not all that is in use is this test's.
    in_function = re.sub(r"\(\d+\)", "", run.stdout)
    in_function = in_function[in_function.index("asked for at test_memory.py: test_function") :]
    assert re.match(r".*\ncpu \(HOST\): .* in use then, by source line:\n", in_function)
    assert re.search(r"\n +4\.00 MiB +1 block +test_memory\.py: allocate\n", in_function)
    assert re.search(r"\n +2\.00 MiB +1 block +test_memory\.py: test_function\n", in_function)
    in_fixture = run.stdout[run.stdout.index("Captured msmemscope setup") :]
    assert re.match(r".*\n.* asked for at test_memory\.py\(\d+\): fixture_that_fails\n", in_fixture)
    assert re.search(r"\n +3\.00 MiB  1 block  test_memory\.py\(\d+\): fixture_that_fails\n", in_fixture)


def test_fixtures_that_fail(tmp_path: Path) -> None:
    """Their errors are those that show, collection ends with them, and the tests after them are judged as ever."""
    tests = """
from msmemscope.capture.session import session

@pytest.fixture
def fails_at_first():
    assert False, "at first"

@pytest.fixture
def fails_at_last():
    yield
    assert not session.is_tracing
    assert False, "at last"

@pytest.mark.no_device_leaks
def test_setup(fails_at_first):
    pass

@pytest.mark.no_device_leaks
def test_teardown(fails_at_last):
    kept.append(allocate(1))

def test_that_nothing_is_collected():
    assert not session.is_tracing

@pytest.mark.no_device_leaks
def test_that_leaks():
    assert session.is_tracing
    kept.append(allocate(2))
"""
    run = run_pytest(tmp_path, tests)
    assert outcomes(run) == {"passed": 3, "error": 3}, run.stdout
    assert "AssertionError: at first" in run.stdout
    assert "AssertionError: at last" in run.stdout
    assert "cpu (HOST): 2.00 MiB in 1 block that the test function allocated are still alive" in run.stdout


def test_settings_that_fixtures_choose_hold(tmp_path: Path) -> None:
    """Collection that a fixture begins is on in its test, and ends with it."""
    tests = """
import msmemscope
from msmemscope.capture.session import session

@pytest.fixture
def observed():
    msmemscope.config(device="cpu", call_stack="python:3")
    msmemscope.start()
    yield
    msmemscope.stop()

@pytest.mark.limit_device_memory("1 MiB", device="cpu")
def test_it(observed):
    assert session.is_tracing
    assert session.config.python_stack_depth == 3
    allocate(2)
"""
    run = run_pytest(tmp_path, tests)
    assert outcomes(run) == {"failed": 1}, run.stdout
    assert "the peak of 2.00 MiB exceeds the limit of 1.00 MiB" in run.stdout


def test_fixtures_alone(tmp_path: Path) -> None:
    """`--setup-only` calls no test."""
    run = run_pytest(tmp_path, LIMITS, "--setup-only")
    assert run.returncode == 0, run.stdout


def test_wrong_arguments_end_the_run_before_the_first_test(tmp_path: Path) -> None:
    """As pytest's own usage errors do."""
    wrong = '@pytest.mark.limit_device_memory("much")\ndef test_it(): print("REACHED")\n'
    run = run_pytest(tmp_path, wrong, "-s")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_memory.py::test_it: @pytest.mark.limit_device_memory: not a size: 'much'" in run.stderr
    assert "REACHED" not in run.stdout


def test_workers_of_xdist_check_too(tmp_path: Path, begin: str) -> None:
    """Each for its own tests; wrong arguments are the error of their test."""
    pytest.importorskip("xdist")
    wrong = '\n@pytest.mark.limit_device_memory("much")\ndef test_wrong(): pass\n'
    run = run_pytest(tmp_path, LIMITS + wrong, "-n", str(WORKERS), begin=begin)
    assert outcomes(run) == {"passed": 3, "failed": 3, "xfailed": 1, "error": 1}, run.stdout
    assert "usage error: test_memory.py::test_wrong: @pytest.mark.limit_device_memory: not a size" in run.stdout


def test_without_marks_msmemscope_is_not_imported(tmp_path: Path) -> None:
    """The plugin costs nothing where it is not used."""
    run = run_pytest(tmp_path, "def test_it():\n    import sys\n    assert 'msmemscope' not in sys.modules\n")
    assert outcomes(run) == {"passed": 1}, run.stdout


def test_a_device_that_is_not_observed_is_no_pass(tmp_path: Path) -> None:
    """The settings in force are the program's own, and leave the device out."""
    conftest = tmp_path / "suite" / "conftest.py"
    conftest.parent.mkdir()
    conftest.write_text(f"import msmemscope\nmsmemscope.config(device='npu', output={str(tmp_path / 'output')!r})\n")
    run = run_pytest(tmp_path, '@pytest.mark.limit_device_memory("1G", device="cpu")\ndef test_it(): pass\n')
    assert outcomes(run) == {"failed": 1}, run.stdout
    assert "does not know what memory this test used: cpu is not observed" in run.stdout


def test_a_test_that_stops_collection_is_no_pass(tmp_path: Path) -> None:
    """A test that stops collection fails, because the memory that it used is not known."""
    stops = """
@pytest.mark.limit_device_memory("1G")
def test_it():
    import msmemscope
    msmemscope.stop()
"""
    run = run_pytest(tmp_path, stops)
    assert outcomes(run) == {"failed": 1}, run.stdout
    assert "collection was stopped inside" in run.stdout


def test_under_the_command_line_everything_is_collected_and_checked(tmp_path: Path, begin: str) -> None:
    """The launcher's settings hold, which do not observe an NPU here, and its results are written."""
    launcher = (*tool.TOOL, "--device=cpu", f"--output={tmp_path / 'output'}", "--")
    run = run_pytest(tmp_path, LIMITS, launcher=launcher, begin=begin)
    assert outcomes(run) == {"passed": 2, "failed": 4, "xfailed": 1}, run.stdout
    assert "npu is not observed" in run.stdout
    assert run.capture.event_count() > 0
    assert list(run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv"))


def test_many_tests_do_not_get_slower(tmp_path: Path) -> None:
    """Each reads only what is new: the last of many tests is checked as fast as the first ones."""
    many = f"""
import time
begins = []
number_of_tests = {NUMBER_OF_MANY}

@pytest.mark.no_device_leaks
@pytest.mark.parametrize("number", range(number_of_tests))
def test_it(number):
    begins.append(time.process_time())  # others may use the processors, too
    for _ in range(500):
        torch.empty(100)

def test_pace():
    half, quarter = number_of_tests // 2, number_of_tests // 4
    took = sorted(after - before for before, after in zip(begins[half:], begins[half + 1:]))
    early = sorted(after - before for before, after in zip(begins[5:5 + quarter], begins[6:6 + quarter]))
    assert took[len(took) // 2] < 3 * early[len(early) // 2]
"""
    run = run_pytest(tmp_path, many)
    assert outcomes(run) == {"passed": NUMBER_OF_MANY + 1}, run.stdout
