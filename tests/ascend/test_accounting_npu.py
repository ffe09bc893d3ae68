"""No byte is lost and none invented on an NPU either: the pool's blocks, compared with `memory_allocated()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from tests.support.accounting import Action, Targets, programs
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

MODES = {
    "task queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "task queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "expandable segments": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
}
BY_DAY = "task queue 1"
"""As torch_npu is if nothing is set. A target takes longer to start and to end than it takes for 30 programs."""


EXAMPLES = settings().max_examples if NIGHT else 30
"""Programs in each mode: by day fewer than on the CPU, since most of what they do is the same there."""


@pytest.fixture(
    scope="module", params=[pytest.param(mode, marks=[] if mode == BY_DAY else [nightly]) for mode in MODES]
)
def targets(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, vnpu_environment: dict[str, str]
) -> Iterator[Targets]:
    """The running target program."""
    folder = tmp_path_factory.mktemp("accounting")
    running = Targets("npu", folder, {**vnpu_environment, **MODES[request.param]})
    yield running
    running.end()


@settings(max_examples=EXAMPLES)
@given(programs)
def test_totals_and_labels_of_any_program(targets: Targets, program: list[Action]) -> None:
    """After every action, what is alive in the log is what torch_npu counts; and every block has its labels."""
    targets.check(program)
