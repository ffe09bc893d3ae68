"""The memory of a device adds up: pools, modules and what nothing explains are what the driver gave, in every program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import msmemscope
from msmemscope.analysis.card.card import account_for_card
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
PROGRAMS = {
    "one pool": ("marked_steps.py", "torch_npu", {}),
    "pools and workspace": ("marked_steps.py", "torch_npu", {"TASK_QUEUE_ENABLE": "2"}),
    "mapped segments": ("marked_steps.py", "torch_npu", EXPANDABLE),
    "two devices": ("operators.py", "", {}),
    "training": ("kernels.py", "", {}),
    "training with mapped segments": ("stack_totals.py", "1", EXPANDABLE),
    "steps": ("stack_totals.py", "2", {}),
    "emptied caches": ("driver_bytes_by_step.py", "", {}),
    "blocks side by side": ("watched_memory.py", "none", {}),
}
BY_DAY = frozenset({"training with mapped segments"})


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one in BY_DAY else [nightly]) for one in PROGRAMS])
def test_less_than_one_percent_is_unknown(observe: Observe, name: str) -> None:
    """Of what the driver of each device gave the process, and of that what was not recorded."""
    program, argument, variables = PROGRAMS[name]
    seen = observe(["--device=npu"], program, *filter(None, [argument]), variables=variables, log_alone=True)
    card = account_for_card(msmemscope.load(seen.run.capture.directory))
    assert card.devices
    for device in card.devices:
        total = card.total_bytes(device)
        unrecorded = card.parts.filter(device=device, part="not recorded")["peak_bytes"].sum()
        assert total > 0
        assert 0 <= card.unknown_bytes(device) < total / 100, card.parts
        assert unrecorded < total / 100, card.parts
