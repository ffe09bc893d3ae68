"""Programs of the zoo of host memory with their tensors on the virtual NPU: growth of the host is seen beside the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.host_zoo.catalogue import HostProgram, host_programs
from tests.host_zoo.measure import run_program
from tests.reports.measure import Outcome
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

CHOSEN: Final = ("answer_log", "log_buffer", "event_queue", "page_pool", "token_index", "answer_log fixed")
BY_DAY: Final = ("page_pool",)
HALF: Final = ("event_queue", "log_buffer")
"""Said to be a tenth larger than they are: memory of the emulated runtime grows beside them."""


def chosen() -> Iterator[object]:
    """Their parameters; most at night."""
    for program in host_programs():
        if program.name in CHOSEN:
            marks = [] if program.name in BY_DAY else [nightly]
            yield pytest.param(program, id=program.name, marks=marks)


@pytest.mark.parametrize("program", list(chosen()))
def test_the_first_line_is_right(program: HostProgram, vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """As on the CPU; where the amount is too large, kind, line and holder still are."""
    judged = run_program(program, tmp_path, vnpu_environment)
    accepted = {Outcome.RIGHT, Outcome.HALF} if program.name in HALF else {Outcome.RIGHT}
    assert judged.outcome in accepted, f"{judged.truth_mebibytes}: {judged.verdict}"
