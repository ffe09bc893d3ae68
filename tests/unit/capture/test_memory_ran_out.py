"""Our work at the place where torch gives up an allocation leaves the program's garbage to its collector."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from msmemscope.capture import out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator


class Batch:
    """Refers to itself."""

    def __init__(self) -> None:
        """Begin a cycle."""
        self.batch = self


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    gc.collect()
    yield
    gc.enable()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_what_waits_for_the_collector_is_there_when_holders_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
    is_enabled: bool,  # noqa: FBT001
) -> None:
    """However many objects are made before: the search must find what was in use at the failure. The switch stays as it was."""
    waiting = weakref.ref(Batch())
    seen = []

    def make_objects(*_: object, **__: object) -> None:
        assert len([[number] for number in range(100_000)]) == 100_000

    for name, replacement in {
        "accelerators_of_process": lambda: SimpleNamespace(driver_number=int, figures=int, kind="npu"),
        "is_observed": lambda *_: True,
        "record_figures": make_objects,
        "record_holders_at_failure": lambda _: seen.append(waiting() is not None),
        "_native": SimpleNamespace(is_collecting=lambda: True, failure_was_recorded=lambda: True),
        "_current_config": [lambda: SimpleNamespace(holder_time=500, oom_top=5)],
    }.items():
        monkeypatch.setattr(out_of_memory, name, replacement)
    if not is_enabled:
        gc.disable()
    out_of_memory._memory_ran_out(0, 1 << 20, 0, 0)
    assert seen == [True]
    assert gc.isenabled() is is_enabled
