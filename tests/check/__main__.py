"""Checks what differs from a commit: `python -m tests.check [BASE [SECONDS]]`, or `make check BASE=... WITHIN=...`.

It runs style, types, the quick contracts, and the tests that the changed files can reach, the nearest first. A change
of Python gets a minute, a change of native code two, unless you give it more time. It names the tests that it did not
run. `make test` runs everything.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.check import in_order
from tests.check.processes import ALWAYS, COSTLY_CONTRACTS
from tests.check.reach import IN_ONE_PROCESS, reached_from
from tests.support.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PYTHON_S: Final = 60.0
NATIVE_S: Final = 120.0
NO_CODE: Final = (".md", ".1")
"""Files beside native code that nothing is built from."""
RESERVE_S: Final = 8.0
"""The seconds that a run still takes when no further test begins."""

ALWAYS_NEAR: Final = 5
"""Modules of tests that import a changed file, and run however late it is."""

MOST_MODULES: Final = 25
"""Modules of tests that are looked at, besides those that always run: loading more takes longer than there is."""

CONTRACTS: Final = "tests/contracts"
NATIVE_TESTS: Final = ROOT / "build" / "native-plain"
"""Where `make test-native` builds."""

LEFT: Final = {
    "vnpu/": "make test-npu",
    "ui/": "make test-ui",
    "native/": "make test-native, make sanitize",
    "benchmarks/": "make bench",
}
"""Further checks to run by hand for some folders."""


def say(text: str) -> None:
    """Print at once, as commands print between."""
    sys.stdout.write(f"{text.rstrip()}\n")
    sys.stdout.flush()


def main() -> int:
    """Check, and return the status: 0 if all is well."""
    began_s = time.time()
    base, within = [*sys.argv[1:], "", ""][:2]
    base = base or "HEAD"
    changed = changed_files(base)
    if not changed:
        say(f"nothing differs from {base}; make check BASE=... compares with another commit")
        return 0
    say(f"differs from {base}: {shortened(changed)}")
    is_native = any(name.startswith("native/") and not name.endswith(NO_CODE) for name in changed)
    most_s = float(within or (NATIVE_S if is_native else PYTHON_S))
    until_s = began_s + most_s - RESERVE_S
    with ThreadPoolExecutor() as beside:
        checks = [beside.submit(run, name, command) for name, command in static_checks(changed)]
        results = [run_native_tests()] if is_native else []
        tested = run_tests(changed, until_s)
        results.append(tested.is_well)
        results.extend(is_well(check.result()) for check in checks)
    spent_s = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    verdict = "all that ran is well" if tested.left else "all is well"
    verdict = verdict if all(results) else "NOT well"
    if tested.left:
        say(f"not run, as time was up: {sum(tested.left.values())} tests, the nearest of {shortened([*tested.left])}")
        say(f"make check WITHIN={2 * most_s:.0f} runs more of them")
    say(f"{verdict} after {time.time() - began_s:.0f} s, {spent_s:.0f} s of processors")
    return 0 if all(results) else 1


def changed_files(base: str, root: Path = ROOT) -> list[str]:
    """The files that differ from a commit, with new files. A renamed file counts with both names."""
    git = shutil.which("git") or "git"
    commands = (
        [git, "diff", "--name-only", "--no-renames", "-z", base, "--"],
        [git, "ls-files", "--others", "--exclude-standard", "-z"],
    )
    listed = [subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True) for command in commands]
    return sorted({name for each in listed for name in each.stdout.split("\0") if name})


def static_checks(changed: Iterable[str]) -> Iterable[tuple[str, list[str]]]:
    """The checks that look at the text alone. The layers are a contract: lint-imports runs with the contracts."""
    python = [sys.executable, "-m"]
    yield "ruff check", [*python, "ruff", "check", "."]
    yield "ruff format", [*python, "ruff", "format", "--check", "."]
    files = [name for name in changed if name.endswith(".py") and (ROOT / name).is_file()]
    if files and not (ROOT / ".mypy_cache").is_dir():  # all of them take most of a minute
        yield "mypy of changed files", [*python, "mypy", *files]
    elif files or "pyproject.toml" in changed:
        yield "mypy", [*python, "mypy"]
    cpp = [name for name in changed if name.endswith((".cpp", ".h")) and (ROOT / name).is_file()]
    if cpp:
        yield "clang-format", ["clang-format", "--dry-run", "--Werror", *cpp]


class Tested(NamedTuple):
    """The outcome of the tests."""

    is_well: bool
    """Whether none of those that ran failed."""
    left: dict[str, int]
    """Modules whose tests did not all run, the nearest first, and how many of them."""


class Ended(NamedTuple):
    """A command that has ended."""

    name: str
    status: int
    seconds: float
    said: str


def run(name: str, command: Sequence[str]) -> Ended:
    """Run a command, and keep what it says."""
    began_s = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return Ended(name, ended.returncode, time.monotonic() - began_s, ended.stdout)


def is_well(ended: Ended) -> bool:
    """Say how a command ended, and what it said if it failed."""
    say(f"{ended.name}: {'ok' if ended.status == 0 else 'FAILED'} ({ended.seconds:.0f} s)")
    if ended.status != 0:
        say(ended.said)
    return ended.status == 0


def run_native_tests() -> bool:
    """Build and run the tests without Python, if they were built before: the first time takes minutes."""
    if not (NATIVE_TESTS / "CMakeCache.txt").is_file():
        say("native tests: not built here yet; after make test-native this command runs them too")
        return True
    build = ["cmake", "--build", str(NATIVE_TESTS), "--parallel", "2"]
    test = ["ctest", "--test-dir", str(NATIVE_TESTS), "--parallel", "2", "--output-on-failure", "--no-tests=error"]
    return is_well(run("native build", build)) and is_well(run("native tests", test))


def run_tests(changed: Sequence[str], until_s: float) -> Tested:
    """Run what the changed files reach, and say what that is."""
    reached = {name: reached_from(name) for name in changed}
    first = sorted({test for each in reached.values() for test in each.itself})
    distances: dict[str, int] = {}
    for each in reached.values():
        for test, distance in each.by_imports.items():
            distances[test] = min(distance, distances.get(test, distance))
    in_order_of_nearness = sorted(
        distances, key=lambda test: (not test.startswith(IN_ONE_PROCESS), distances[test], test)
    )
    nearest = [test for test in in_order_of_nearness if test not in first]
    processes = [test for each in reached.values() for test in each.through_processes if test not in first]
    contracts = [test for test, names in COSTLY_CONTRACTS.items() if any(name.startswith(names) for name in changed)]
    far_away, nearest = nearest[MOST_MODULES:], nearest[:MOST_MODULES]
    near = [test for test in nearest if distances[test] == 1]
    tests = list(dict.fromkeys([*first, *always_run(changed), *contract_modules(), *near, *processes, *nearest]))
    say(f"first: {shortened(first)}")
    say(f"import it: {shortened(near)}")
    say(f"start processes: {shortened(list(dict.fromkeys(processes)))}")
    say(f"over other imports, the nearest first: {len(nearest) - len(near)} modules")
    if far_away:
        say(f"left, too far away: {len(far_away)} modules")
    for name in [name for name, each in reached.items() if not each]:
        say(f"{name}: contracts alone look at it here")
    code = [name for name in changed if not name.endswith(NO_CODE)]
    others = [command for folder, command in LEFT.items() if any(name.startswith(folder) for name in code)]
    say(f"left to others: {', '.join([*others, 'make test'])}: slow tests, all others that start processes")
    always = [*first, *contract_modules(), *near[:ALWAYS_NEAR], *always_run(changed)]
    with tempfile.TemporaryDirectory() as folder:
        order = Path(folder) / "order.json"
        in_order.write_order(order, tests=tests, always=always, until_s=until_s)
        command = [
            sys.executable, "-m", "pytest", "-q", "-r", "fE", "-m", "not slow", "-p", "tests.check.in_order",
            "-n", "2", "--dist=loadfile", "--no-loadscope-reorder",
            *(word for test in COSTLY_CONTRACTS if test not in contracts for word in ("--deselect", test)), *tests,
        ]  # fmt: skip
        environment = os.environ | {in_order.VARIABLE: str(order)}
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        left = in_order.left_tests(order)
    return Tested(status == 0, left)


def always_run(changed: Iterable[str]) -> list[str]:
    """The modules of tests that run for a folder however late it is."""
    return [
        test for folder, tests in ALWAYS.items() if any(name.startswith(folder) for name in changed) for test in tests
    ]


def contract_modules() -> list[str]:
    """The modules of the contracts; those that take long are left out one by one."""
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / CONTRACTS).glob("test_*.py"))]


def shortened(names: Sequence[str]) -> str:
    """A few names of many."""
    shown = [name.removeprefix("tests/") for name in names[:8]]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "") or "none"


if __name__ == "__main__":
    raise SystemExit(main())
