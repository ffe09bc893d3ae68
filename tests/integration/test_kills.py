"""Processes that are killed at random moments: nothing that had happened by then is lost, and nothing else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.model.pools import Pool
from tests.support.ascend import NotInstalledError, virtual_npu_environment
from tests.support.kills import build_for_cpu, build_for_npu, kill_many
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from tests.support.targets import Builder

KILLS = {Pool.HOST: 250 if NIGHT else 10, Pool.HAL: 250 if NIGHT else 5}
"""The emulated driver is slow: where the log rotates, it takes a process seconds until its log is full."""


@pytest.mark.parametrize("rotates", [False, True], ids=["whole", "rotating"])
@pytest.mark.parametrize("pool", [Pool.HOST, Pool.HAL], ids=["cpu", "npu"])
def test_random_kills(target_builder: Builder, pool: Pool, *, rotates: bool) -> None:
    """`python -m tests.support.kills 1000` does the same more often."""
    if pool is Pool.HOST:
        program, variables = build_for_cpu(target_builder), {}
    else:
        try:
            variables = virtual_npu_environment(with_torch=False)
        except NotInstalledError as missing:
            pytest.skip(str(missing))
        program = build_for_npu(target_builder, variables)
    figures = kill_many(program, KILLS[pool], pool=pool, rotates=rotates, variables=variables)
    assert figures.lost == figures.invented == 0, figures
    assert figures.recorded > 0
    assert (figures.recycled > 0) is rotates, figures
