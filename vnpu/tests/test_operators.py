"""Every operator case on the virtual NPU against the same call on the CPU: results, gradients, data types, shapes."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import vnpu.tests.operator_cases as families  # noqa: E402
from vnpu.tests.operator_cases.case import OperatorCase  # noqa: E402

RELATIVE = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}
ABSOLUTE = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}


def all_cases() -> list[Any]:
    """Every case of every family, once for each of its types."""
    parameters = []
    for module in pkgutil.iter_modules(families.__path__):
        if module.name == "case":
            continue
        cases: list[OperatorCase] = importlib.import_module(f"{families.__name__}.{module.name}").CASES
        assert len({case.name for case in cases}) == len(cases), f"{module.name}: two cases have one name"
        parameters += [
            pytest.param(case, type_name, id=f"{module.name}-{case.name.replace(' ', '_')}-{type_name}")
            for case in cases
            for type_name in case.types
        ]
    return parameters


def on_device(value: Any, device: str, type_name: str) -> Any:
    """An input of a case as the call gets it on a device; gradients are asked of floating point tensors."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():
        return value.to(getattr(torch, type_name)).to(device).detach().requires_grad_(True)
    return value.to(device)


def results_of(outcome: Any) -> list[Any]:
    """The tensors that a call returned, in order."""
    if isinstance(outcome, torch.Tensor):
        return [outcome]
    return [tensor for part in outcome for tensor in results_of(part)]


def run(case: OperatorCase, device: str, type_name: str) -> tuple[list[Any], list[Any]]:
    """Make the call; return its results and the gradients of its inputs, all on the CPU."""
    generator = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    inputs = [on_device(value, device, type_name) for value in case.inputs(generator)]
    differentiable = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if not case.backward:
        with torch.no_grad():
            return [result.cpu() for result in results_of(case.call(*inputs))], []
    results = results_of(case.call(*inputs))
    with_gradient = [result for result in results if result.requires_grad]
    assert with_gradient, "no result depends on an input in a way that can be differentiated"
    # The same direction on every device, whatever the number of results.
    directions = [
        torch.randn(result.shape, generator=generator).to(result.dtype).to(device) for result in with_gradient
    ]
    gradients = torch.autograd.grad(with_gradient, differentiable, directions, allow_unused=True)
    return [result.detach().cpu() for result in results], [
        gradient.cpu() for gradient in gradients if gradient is not None
    ]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's remarks on the use of its functions
@pytest.mark.parametrize(("case", "type_name"), all_cases())
def test_operator(npu: None, case: OperatorCase, type_name: str) -> None:
    on_npu, gradients_on_npu = run(case, "npu", type_name)
    if case.check is not None:
        case.check(*on_npu)
        return
    expected, expected_gradients = run(case, "cpu", type_name)
    tolerance = {
        "rtol": RELATIVE[type_name] if case.relative is None else case.relative,
        "atol": ABSOLUTE[type_name] if case.absolute is None else case.absolute,
    }
    assert len(on_npu) == len(expected)
    assert len(gradients_on_npu) == len(expected_gradients)
    for result, right in zip(on_npu, expected, strict=True):
        torch.testing.assert_close(result, right, equal_nan=True, **tolerance)
    for gradient, right in zip(gradients_on_npu, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, right, equal_nan=True, **tolerance)
