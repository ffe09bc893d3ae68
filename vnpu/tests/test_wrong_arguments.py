"""Wrong arguments are refused at the call, as on the CPU, and leave the device as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")

from vnpu.tests.programs import run_good
from vnpu.tests.target_programs.wrong_arguments import CALLS

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """The outcome of each call, in a program that never waits for the device by itself."""
    found: dict[str, dict[str, Any]] = json.loads(run_good("wrong_arguments.py").splitlines()[-1])
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_raises_at_the_call(outcomes: dict[str, dict[str, Any]], name: str) -> None:
    outcome = outcomes[name]
    assert outcome["cpu"] is not None, "the case is none: the CPU takes these arguments"
    assert outcome["npu"] is not None
    assert outcome["after"] == outcome["expected"]


def test_the_c_interface_answers_what_is_no_argument_with_a_status() -> None:
    *lines, results = run_good("operator_interface.py").splitlines()
    outcomes = [line.partition(": ") for line in lines]
    refused = {name: text for name, _, text in outcomes if text.startswith("161002 aclnn")}
    assert refused.keys() == {
        "scalar for a tensor", "list for a tensor", "tensor for a scalar", "no tensor", "no scalar", "no room",
        "tensor for numbers", "numbers for a list", "list of nothing", "no executor", "tensor for an executor",
    }  # fmt: skip
    assert [(name, text.split()[0]) for name, _, text in outcomes if name not in refused] == [
        ("right", "0"),
        ("tensor for a stream", "561000"),
        ("right again", "0"),
        ("run", "0"),
    ]
    assert results == "[2.0, 4.0, 6.0, 8.0] [1.0, 1.0]"
