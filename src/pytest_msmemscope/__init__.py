"""pytest plugin: marks that check the memory of devices during a test.

::

    @pytest.mark.limit_device_memory("2 GiB")
    def test_training_fits(): ...

    @pytest.mark.no_device_leaks
    def test_cache_is_emptied(): ...

`limit_device_memory(size, device=None)`
    Fails if memory of a device is in use beyond the size at any moment of the test function. Memory that is in use
    before it counts. Each pool that programs allocate from (tensors of PyTorch, of MindSpore, workspaces) is judged by
    itself. If a device has none of them, all memory that the driver has given out is judged. Where a limit is exceeded,
    the report shows which lines allocated the memory in use at the peak.

`no_device_leaks(device=None, ignore=())`
    Fails if blocks that the test function allocated are still alive at the end: after its fixtures were torn down and
    `gc.collect()` was called. The failure is an error of the test's teardown. A test that fails itself is not judged,
    as its traceback keeps the memory that it held. `ignore`: patterns, as of `fnmatch`, of source lines `file(line):
    function` that may keep memory.

A test with one of the marks may fail after memory ran out in it or in its fixtures. Then its report shows the line that
asked, and which lines had allocated the memory in use at that moment.

`device`: `npu` for each NPU, `npu:0`, `cuda:0`, `cpu`. Without it, everything observed is judged. That is all NPUs
where CANN is set up, else the cpu and CUDA devices. Devices that other marks name are observed too. Wrong arguments end the run before the first test.

Without one of the marks, msmemscope is not even imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_MARKS = (
    "limit_device_memory(size, device=None): fail if more memory of a device is in use (msmemscope)",
    "no_device_leaks(device=None, ignore=()): fail if memory of a device stays in use (msmemscope)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the checks if a test that will run asks for them."""
    names = [mark.partition("(")[0] for mark in _MARKS]
    if any(item.get_closest_marker(name) for item in session.items for name in names):
        from msmemscope.integrations.pytest import register

        register(session.config, session.items)
