"""The checks of memory that the pytest plugin `pytest_msmemscope` makes.

Loaded only where a test has one of the marks. How to use them is in the plugin's own docstring.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import gc
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope import _native
from msmemscope.capture.session import session
from msmemscope.configuration import observable_devices
from msmemscope.configuration.settings import ACCEPTED_DEVICES, is_device
from msmemscope.errors import MsmemscopeError, UsageError
from msmemscope.integrations.memory_text import (
    counted_blocks,
    failure_text,
    rank_source_lines,
    ranking_lines,
    shortened,
    where,
)
from msmemscope.integrations.observed_region import ObservedRegion, collect_into_scratch_folder, open_capture
from msmemscope.model.devices import device_name
from msmemscope.model.pools import Pool
from msmemscope.units import SIZE_FORMS, format_bytes, parse_size_bytes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import polars as pl

    from msmemscope.analysis.window import MemoryWindow, PoolWindow
    from msmemscope.integrations.observed_region import FailedAllocation

LIMIT_MARK = "limit_device_memory"
LEAKS_MARK = "no_device_leaks"

_CACHES = frozenset({Pool.HAL, Pool.PTA_WORKSPACE})
"""Pools from which allocators take memory that they keep for later: a block that stays is no leak of the test."""


@dataclasses.dataclass(frozen=True)
class _Checks:
    """The demands of the marks of one test."""

    limits: tuple[tuple[int, str | None], ...]
    """Bytes, and the device if one was named."""
    looks_for_leaks: bool
    leak_device: str | None
    ignored: tuple[str, ...]

    @property
    def devices(self) -> set[str]:
        """Devices that were named."""
        return {device for device in (*(device for _, device in self.limits), self.leak_device) if device is not None}


def checks_of(item: pytest.Item) -> _Checks | None:
    """Read the marks of a test.

    Raises:
        pytest.UsageError: If an argument is not accepted.
    """
    limits = tuple(_limit_of(item, mark) for mark in item.iter_markers(LIMIT_MARK))
    leaks = [_leaks_of(item, mark) for mark in item.iter_markers(LEAKS_MARK)]
    if not limits and not leaks:
        return None
    # The closest mark names the device; patterns of all of them count, so that a module can ignore what it knows.
    device = leaks[0][1] if leaks else None
    return _Checks(limits, bool(leaks), device, tuple(pattern for patterns, _ in leaks for pattern in patterns))


def _refuse(item: pytest.Item, mark: pytest.Mark, message: str) -> pytest.UsageError:
    return pytest.UsageError(f"{item.nodeid}: @pytest.mark.{mark.name}: {message}")


def _limit_of(item: pytest.Item, mark: pytest.Mark) -> tuple[int, str | None]:
    keywords = dict(mark.kwargs)
    device = _device_of(item, mark, keywords)
    if len(mark.args) != 1 or keywords:
        signature = 'limit_device_memory("2GiB", device="npu:0")'
        raise _refuse(item, mark, f"takes one size and, if wanted, a device: {signature}")
    size = mark.args[0]
    if isinstance(size, str):
        try:
            return parse_size_bytes("".join(size.split()), option="size"), device
        except UsageError as error:
            raise _refuse(item, mark, f"{error.reason}: {size!r} (accepted: {error.accepted})") from None
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise _refuse(item, mark, f"not a size: {size!r} (accepted: {SIZE_FORMS}, or bytes as an int)")
    return size, device


def _leaks_of(item: pytest.Item, mark: pytest.Mark) -> tuple[tuple[str, ...], str | None]:
    keywords = dict(mark.kwargs)
    device = _device_of(item, mark, keywords)
    ignored = keywords.pop("ignore", ())
    if mark.args or keywords:
        signature = 'no_device_leaks(device="npu:0", ignore=["*cache.py*"])'
        raise _refuse(item, mark, f"takes a device and patterns to ignore, both by keyword: {signature}")
    patterns = (
        (ignored,) if isinstance(ignored, str) else tuple(ignored) if isinstance(ignored, (list, tuple)) else None
    )
    if patterns is None or not all(isinstance(pattern, str) for pattern in patterns):
        accepted = "a pattern of source lines such as '*/cache.py(*): fill', or a list of them"
        raise _refuse(item, mark, f"not patterns: ignore={ignored!r} (accepted: {accepted})")
    return patterns, device


def _device_of(item: pytest.Item, mark: pytest.Mark, keywords: dict[str, Any]) -> str | None:
    device = keywords.pop("device", None)
    if device is not None and not (isinstance(device, str) and is_device(device)):
        accepted = f"{ACCEPTED_DEVICES}; a kind for each of its devices"
        raise _refuse(item, mark, f"not a device: {device!r} (accepted: {accepted})")
    return device


class MemoryChecks:
    """Runs marked tests under collection and judges what they did.

    Args:
        checks: Test to the demands of its marks.
        mistakes: Test to the fault of its marks, where the run could not be refused.
    """

    def __init__(self, checks: dict[pytest.Item, _Checks], mistakes: dict[pytest.Item, pytest.UsageError]) -> None:
        self._checks = checks
        self._mistakes = mistakes
        self._collections: dict[pytest.Item, ObservedRegion] = {}
        """Of tests that run: from their fixtures to the end of their function, so that stacks of both are known."""
        self._regions: dict[pytest.Item, ObservedRegion] = {}
        """Their functions alone, which are judged."""
        self._settings: dict[str, Any] = {}
        if collect_into_scratch_folder():
            devices = set(observable_devices()).union(*(check.devices for check in checks.values()))
            self._settings = {"events": "alloc,free", "analysis": "", "device": sorted(devices)}

    @pytest.hookimpl(wrapper=True, trylast=True)  # within the wrappers of pytest, which expect an end of each beginning
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Refuse a test whose marks are wrong; begin to collect before its fixtures allocate."""
        if item in self._mistakes:
            pytest.fail(f"usage error: {self._mistakes[item]}", pytrace=False)
        if item not in self._checks:
            return (yield)
        collection = self._collections[item] = ObservedRegion(**self._settings)
        collection.begin()
        try:
            return (yield)
        except BaseException:
            self._end_collection(item)
            _explain_failure(item, "setup", collection)
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Observe the test function, not its fixtures, and compare the peak with the limit."""
        checks = self._checks.get(item)
        if checks is None:
            return (yield)
        region = ObservedRegion(**self._settings)
        if checks.limits:
            gc.collect()  # garbage of earlier tests is not this one's
        region.begin()
        try:
            result = yield
        except BaseException:
            region.end()
            self._end_collection(item)
            _explain_failure(item, "call", region)
            raise
        region.end()
        self._end_collection(item)
        self._regions[item] = region
        _judge_limits(item, checks, region)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Look, after the fixtures are gone, for blocks that the test function has left behind."""
        self._end_collection(item)  # still on where only fixtures are set up (--setup-only)
        region = self._regions.pop(item, None)
        result = yield
        checks = self._checks.get(item)
        if checks is not None and region is not None and checks.looks_for_leaks:
            _judge_leaks(item, checks, region)
        return result

    def _end_collection(self, item: pytest.Item) -> None:
        collection = self._collections.pop(item, None)
        if collection is not None:
            collection.end()


def _explain_failure(item: pytest.Item, phase: str, region: ObservedRegion) -> None:
    """Add the blocks in use where memory ran out to the report of a failed test; nothing where it did not."""
    try:
        window = region.window()
        failures = region.failures()
    except MsmemscopeError as error:
        item.add_report_section(phase, "msmemscope", f"whether memory ran out is not known: {error.message}\n")
        return
    if failures:
        item.add_report_section(phase, "msmemscope", "\n".join(_failure_lines(item, window, failures[-1])) + "\n")


def _failure_lines(item: pytest.Item, window: MemoryWindow, failure: FailedAllocation) -> Iterator[str]:
    folder = str(item.config.rootpath)
    capture = open_capture()
    yield failure_text(failure, shortened(failure.source_line, folder))
    for pool in _judged_pools(window, device_name(failure.device)):
        blocks = window.blocks_at(pool, failure.sequence)
        size = f"{format_bytes(int(blocks['size'].sum()))} in {counted_blocks(blocks.height)}"
        yield f"{where(pool)}: {size} in use then, by source line:"
        yield from ranking_lines(rank_source_lines(blocks, capture), folder)


def _judge_limits(item: pytest.Item, checks: _Checks, region: ObservedRegion) -> None:
    if not checks.limits:
        return
    window = _window_of(checks, region)
    for limit_bytes, device in checks.limits:
        exceeded = [pool for pool in _judged_pools(window, device) if pool.peak_bytes > limit_bytes]
        if exceeded:
            texts = [_limit_text(item, window, pool, limit_bytes) for pool in exceeded]
            pytest.fail("\n".join(texts), pytrace=False)


def _judge_leaks(item: pytest.Item, checks: _Checks, region: ObservedRegion) -> None:
    left = _left(item, checks, region)
    if left:
        # pytest holds the values of fixtures a little longer than the fixtures; their objects are about to go.
        fixtures: dict[str, Any] = getattr(item, "funcargs", None) or {}
        fixtures.clear()
        gc.collect()
        left = _left(item, checks, region)
    if left:
        pytest.fail("\n".join(left), pytrace=False)


def _left(item: pytest.Item, checks: _Checks, region: ObservedRegion) -> list[str]:
    window = _window_of(checks, region)
    texts = []
    for pool in window.pools:
        if _is_device(pool.device, checks.leak_device) and pool.pool not in _CACHES:
            blocks = window.blocks_left(pool)
            if blocks.height:
                blocks = _without_ignored(blocks, checks.ignored)
            if blocks.height:
                texts.append(_leak_text(item, pool, blocks))
    return texts


def _window_of(checks: _Checks, region: ObservedRegion) -> MemoryWindow:
    """The events in a region; a failure if they are not known exactly."""
    observed = session.config.devices
    missing = sorted(device for device in checks.devices if not _is_observed(device, observed))
    try:
        window = region.window()
        problems = (*region.problems(), *(f"{device} is not observed (--device)" for device in missing))
    except MsmemscopeError as error:
        problems = (error.message,)
    if problems:
        pytest.fail("msmemscope does not know what memory this test used: " + "; ".join(problems), pytrace=False)
    return window


def _is_observed(device: str, observed: Iterable[str]) -> bool:
    return device in observed or device.partition(":")[0] in observed


def _is_device(number: int, named: str | None) -> bool:
    if named is None:
        return True
    return named in {device_name(number), device_name(number).partition(":")[0]}


def _judged_pools(window: MemoryWindow, named: str | None) -> list[PoolWindow]:
    """Pools that programs allocate from; the driver's, from which they take memory, only where there is no other."""
    pools = [pool for pool in window.pools if _is_device(pool.device, named)]
    with_others = {pool.device for pool in pools if pool.pool != Pool.HAL}
    return [pool for pool in pools if pool.pool != Pool.HAL or pool.device not in with_others]


def _without_ignored(blocks: pl.DataFrame, patterns: tuple[str, ...]) -> pl.DataFrame:
    if not patterns:
        return blocks
    import polars as pl

    from msmemscope.recording.source_lines import line_and_library, source_lines

    capture = open_capture()
    lines = source_lines(capture.python_stack_frame(blocks.get_column("python_stack_id")))

    def is_ignored(text: str) -> bool:
        line, library = line_and_library(text)
        named = (text, line, f"/{library}")
        return any(fnmatch.fnmatchcase(one, pattern) for one in named for pattern in patterns)

    ignored = [stack_id for stack_id, text in lines.iter_rows() if is_ignored(text)]
    return blocks.filter(~pl.col("python_stack_id").is_in(ignored))


def _limit_text(item: pytest.Item, window: MemoryWindow, pool: PoolWindow, limit_bytes: int) -> str:
    blocks = window.blocks_at_peak(pool)
    ranking = rank_source_lines(blocks, open_capture())
    limit = f"{format_bytes(limit_bytes)} ({pool.peak_bytes:,} > {limit_bytes:,} bytes)"
    return "\n".join(
        [
            f"{where(pool)}: the peak of {format_bytes(pool.peak_bytes)} exceeds the limit of {limit}",
            f"  in use before the test function: {format_bytes(pool.before_bytes)}",
            f"  at the peak, {counted_blocks(blocks.height)} by source line:",
            *ranking_lines(ranking, str(item.config.rootpath)),
        ]
    )


def _leak_text(item: pytest.Item, pool: PoolWindow, blocks: pl.DataFrame) -> str:
    ranking = rank_source_lines(blocks, open_capture())
    size = f"{format_bytes(int(blocks['size'].sum()))} in {counted_blocks(blocks.height)}"
    return "\n".join(
        [
            f"{where(pool)}: {size} that the test function allocated are still alive after it and gc.collect()",
            "  by source line:",
            *ranking_lines(ranking, str(item.config.rootpath)),
        ]
    )


def register(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Have the marked ones among the tests checked.

    Raises:
        pytest.UsageError: If an argument of a mark is not accepted, or nothing can be observed in this process.
    """
    checks: dict[pytest.Item, _Checks] = {}
    mistakes: dict[pytest.Item, pytest.UsageError] = {}
    for item in items:
        try:
            found = checks_of(item)
        except pytest.UsageError as error:
            # An exception that a worker of pytest-xdist raises here would show as a crash of the worker.
            if not hasattr(config, "workerinput"):
                raise
            mistakes[item] = error
            continue
        if found is not None:
            checks[item] = found
    if not _native.is_configured():
        message = "msmemscope cannot observe this process"
        raise pytest.UsageError(message)
    config.pluginmanager.register(MemoryChecks(checks, mistakes), "msmemscope_memory_checks")
