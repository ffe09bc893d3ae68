"""Fixtures of all tests: target programs, the tool, and what the machine lacks."""

from __future__ import annotations

import compileall
import functools
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import hypothesis
import pytest

import msmemscope
from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import SOURCES, Binding, Builder, compilers_missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.tool import ToolRun


# Whoever starts the tests may ignore or block signals (nohup, a shell's background jobs), and children inherit that.
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
os.umask(0o022)
# Threads of torch's that have nothing to do spin else, on processors that other tests want.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

# How long an example takes says nothing on a machine that does other things too.
hypothesis.settings.register_profile(
    "tests", max_examples=100, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("nightly", hypothesis.settings.get_profile("tests"), max_examples=4000)
hypothesis.settings.load_profile("nightly" if NIGHT else "tests")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package once: hundreds of processes import it, and where they may not write they would all compile it."""
    if not hasattr(config, "workerinput"):  # the workers of xdist find it done
        compileall.compile_dir(Path(msmemscope.__file__).parent, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this environment cannot run, with the reason; put modules that take long first."""
    if importlib.util.find_spec("torch") is None:
        skip = pytest.mark.skip(reason="PyTorch is not installed in this environment")
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(skip)
    # Workers take whole modules in this order: in the end there are short ones, and none waits long for another.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


class RunUnderTool(Protocol):
    """Runs a command under the tool; options of the tool follow the command."""

    def __call__(
        self,
        command: Sequence[object],
        *options: str,
        output: Path | None = None,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
        timeout_s: float = tool.TIMEOUT_S,
    ) -> ToolRun:
        """Run the command and return what came of it."""
        ...


class BuildTarget(Protocol):
    """Builds a target program and returns the executable."""

    def __call__(self, name: str, binding: Binding = Binding.LAZY) -> Path:
        """Build the program if that was not done before."""
        ...


@pytest.fixture(scope="session")
def target_builder(request: pytest.FixtureRequest) -> Builder:
    """The compiler of the target programs, with a cache that outlives the test run."""
    missing = compilers_missing()
    if missing:
        pytest.fail(f"target programs cannot be built: {missing}")
    assert request.config.cache is not None
    return Builder(request.config.cache.mkdir("target_programs"))


@pytest.fixture(scope="session")
def build_target(target_builder: Builder) -> BuildTarget:
    """Build a C or C++ target program by its name."""
    return target_builder.program


@pytest.fixture(scope="session")
def python_target() -> functools.partial[list[str | Path]]:
    """The command line of a Python target program: its name, then its arguments."""

    def command(name: str, *arguments: str) -> list[str | Path]:
        return [sys.executable, SOURCES / f"{name}.py", *arguments]

    return functools.partial(command)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output root that does not exist yet."""
    return tmp_path / "output"


@pytest.fixture
def run_under_tool(output: Path) -> RunUnderTool:
    """Run a command under the tool, with results in a folder of its own."""
    default_output = output

    def run(
        command: Sequence[object],
        *options: str,
        output: Path | None = None,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
        timeout_s: float = tool.TIMEOUT_S,
    ) -> ToolRun:
        root = output or default_output
        line = [*tool.TOOL, "--device=cpu", f"--output={root}", *options, "--", *command]
        return tool.run(line, output=root, stdin=stdin, variables=variables, timeout_s=timeout_s)

    return run


@pytest.fixture
def run_alone(output: Path) -> RunUnderTool:
    """Run the same command without the tool, for comparison; options are not allowed."""

    def run(command: Sequence[object], *options: str, **how: Any) -> ToolRun:
        assert not options
        return tool.run(command, **{"output": output, **how})

    return run


@pytest.fixture(scope="session")
def tracing() -> None:
    """Whether processes may be traced that run already; tests that need it are skipped where nobody may."""
    from msmemscope.launch.attaching.remote_call import why_nobody_may_trace

    if (reason := why_nobody_may_trace()) is not None:
        pytest.skip(reason)
