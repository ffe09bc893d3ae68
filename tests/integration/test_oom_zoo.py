"""Tensors of the CPU that run out of address space: the cause that is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oom_zoo import catalogue
from tests.oom_zoo.measure import measure

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_causes_on_the_host(tmp_path: Path) -> None:
    """Cause, line and remedy of each program are the planted ones."""
    programs = catalogue.programs(catalogue.HOST_FAMILIES)
    assert len(programs) >= 2
    assert [row for row in measure(tmp_path, programs) if not row.right] == []
