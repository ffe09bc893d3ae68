"""The operators of torch's own database (OpInfo) have the CPU's results and gradients on the virtual NPU.

torch_operator_exceptions.py lists the operators that do not agree, and whose limit that is.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from vnpu.tests.programs import nightly, run_program
from vnpu.tests.torch_operator_exceptions import EXCEPTIONS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FAMILIES = ("fft", "linalg", "masked", "nn.functional", "signal", "sparse", "special", "torch")
BY_DAY = (
    "add", "as_strided", "bernoulli", "cdist", "double", "fft.rfft", "linalg.eig", "linalg.norm", "matmul",
    "native_batch_norm", "nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention",
    "polar", "rot90", "special.entr", "stft", "tensor_split", "to",
)  # fmt: skip
"""A few with exceptions among them; at night all."""
LIMIT_S = 3600  # for a family, on a busy machine


def exceptions_of(operator: str) -> list[str]:
    """The texts that samples of an operator may give if they do not agree."""
    return [exception.failure for exception in EXCEPTIONS if operator in exception.operators]


def complaints_about(operator: str, outcome: dict[str, Any]) -> list[str]:
    """The faults of an operator: samples that do not agree and are no exception, and exceptions that are none."""
    known = exceptions_of(operator)
    texts = outcome["failures"]
    unknown = [
        f"{operator}, sample {number}: {text}"
        for number, text in texts.items()
        if not any(one in text for one in known)
    ]
    needless = [
        f"{operator}: no sample says {failure!r}; remove the operator from the exceptions"
        for failure in known
        if not any(failure in text for text in texts.values())
    ]
    return unknown + needless


def outcomes_of(names: tuple[str, ...], file: Path) -> dict[str, Any]:
    """The outcomes of the samples of operators or families."""
    jobs = f"--jobs={os.cpu_count()}"
    # An operator that fails raises where it is called, and the other samples go on.
    blocking = {"ASCEND_LAUNCH_BLOCKING": "1"}
    # It forks processes itself: where it was forked too, some of them were aborted.
    ended = run_program("torch_operators.py", jobs, str(file), *names, environment=blocking, limit_s=LIMIT_S, anew=True)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.mark.torch
def test_some_operators(tmp_path: Path) -> None:
    outcomes = outcomes_of(BY_DAY, tmp_path / "outcomes.json")
    assert outcomes.keys() == set(BY_DAY)
    assert all(outcome["samples"] for outcome in outcomes.values())
    complaints = [line for name, outcome in outcomes.items() for line in complaints_about(name, outcome)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.torch
@nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_all_operators(family: str, tmp_path: Path) -> None:
    outcomes = outcomes_of((family,), tmp_path / "outcomes.json")
    assert outcomes, "no operator belongs to this family"
    complaints = [line for name, outcome in outcomes.items() for line in complaints_about(name, outcome)]
    assert not complaints, "\n".join(complaints)


def test_no_exception_is_there_twice() -> None:
    entries = [(operator, exception.failure) for exception in EXCEPTIONS for operator in exception.operators]
    assert len(entries) == len(set(entries))
