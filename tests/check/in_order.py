"""A plugin of pytest: test modules run in the order that was given, and those that may wait are left when time is up.

The order and the end stand in a JSON file that the environment names, because workers of xdist have the environment too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE: Final = "MSMEMSCOPE_CHECK_ORDER"
LEFT: Final = "left to `make test`"


def write_order(file: Path, *, tests: Sequence[str], always: Sequence[str], until_s: float) -> None:
    """Write the file that the plugin reads.

    Args:
        file: The file to write.
        tests: Names of modules, or of tests in them, in the order in which they run.
        always: The tests that run however late it is.
        until_s: The time after which the others are left out, on the clock of `time.time`.
    """
    content = {"tests": list(tests), "always": list(always), "until_s": until_s}
    file.write_text(json.dumps(content), encoding="utf-8")


def left_tests(file: Path) -> dict[str, int]:
    """Return the modules whose tests were left in the run that had this order, in that order, and how many tests each."""
    left = _left_file(file)
    if not left.is_file():
        return {}
    counts: dict[str, int] = json.loads(left.read_text(encoding="utf-8"))
    places = [_module(name) for name in json.loads(file.read_text(encoding="utf-8"))["tests"]]
    return dict(sorted(counts.items(), key=lambda one: places.index(one[0]) if one[0] in places else len(places)))


def _left_file(file: Path) -> Path:
    return file.with_suffix(".left")


class InOrder:
    """The order of one run, and what was left of it."""

    def __init__(self, tests: Sequence[str], always: Sequence[str], until_s: float) -> None:
        self._places = {_module(name): place for place, name in reversed(list(enumerate(tests)))}
        self._always = {_module(name) for name in always}
        self._until_s = until_s
        self._left: dict[str, int] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put modules in order, whatever they were put in before."""
        items.sort(key=lambda item: self._places.get(_module(item.nodeid), len(self._places)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave a test before anything is set up for it."""
        if time.time() > self._until_s and _module(item.nodeid) not in self._always:
            pytest.skip(LEFT)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what was left."""
        if report.skipped and LEFT in str(report.longrepr):
            self._left[_module(report.nodeid)] = self._left.get(_module(report.nodeid), 0) + 1

    def pytest_terminal_summary(self) -> None:
        """Note what was left: whoever gave the order says it."""
        if self._left:
            _left_file(Path(os.environ[VARIABLE])).write_text(json.dumps(self._left), encoding="utf-8")


def _module(name: str) -> str:
    return name.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    """Read the order, where there is one."""
    if VARIABLE in os.environ:
        content = json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
        config.pluginmanager.register(InOrder(content["tests"], content["always"], content["until_s"]))
