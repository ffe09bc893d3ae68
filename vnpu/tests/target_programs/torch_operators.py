"""Operators of torch's own database (OpInfo) on the virtual NPU against the CPU: results, gradients, types, shapes.

    vnpu run -- python torch_operators.py [--jobs=N] FILE NAME|FAMILY...

A family is named by the first part of its operators' names; "torch" is all others. Each operator runs in a process of
its own, forked after the imports and before anything touches a device. So an operator that breaks its device breaks it
for nobody else.

FILE gets a JSON object. For each operator it has the number of its samples, and the number and the text of each sample
that does not agree. If the process of an operator did not come to an end, it has its last words instead.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

SEED = 20
RELATIVE, ABSOLUTE = 1e-4, 2e-5
LIMIT_S = 120  # for one operator; the slowest needs some seconds
OTHER_SEEDS = 12  # a sample of one or two truth values may be the same with some
TEXT_LENGTH = 400
FAMILIES = ("fft", "linalg", "masked", "nn.functional", "signal", "sparse", "special")
NOT_ON_THE_CPU = "jiterator_"
"""Operators with such a name are compiled for CUDA when they are called, and nothing is there to compare with."""
HOST_ARGUMENTS = ("tensor_split",)
"""Operators that read a tensor on the host before anything else, and only there. The first argument goes to the device,
and the others stay."""
UNINITIALISED = ("empty", "new_empty", "resize_")
"""Operators with such a name return memory as it is: shapes and types are compared."""


def name_of(operator: Any) -> str:
    """The name by which an operator of the database is known here: with its variant, where it has one."""
    return f"{operator.name}.{operator.variant_test_name}" if operator.variant_test_name else str(operator.name)


def family_of(name: str) -> str:
    """The family of an operator, by its name."""
    for family in FAMILIES:
        if name.startswith(family + "."):
            return family
    return "torch"


def element_type(operator: Any) -> torch.dtype:
    """float32 where the operator takes it, else the nearest that it takes."""
    order = (torch.float32, torch.complex64, torch.int64, torch.int32, torch.bool, torch.uint8)
    return next((kind for kind in order if kind in operator.dtypes), next(iter(operator.dtypes)))


def on_device(value: Any, device: str) -> Any:
    """A sample's argument on a device: a tensor with all of its storage, so that a view stays the same view."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        whole = torch.empty(0, dtype=value.dtype).set_(value.detach().resolve_conj().untyped_storage())  # type: ignore[call-overload]
        copy = whole.clone().to(device).as_strided(value.size(), value.stride(), value.storage_offset())
        copy = copy.conj() if value.is_conj() else copy
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) and value.type == "cpu":
        return torch.device(device)
    return device if isinstance(value, str) and value == "cpu" else value


def tensors_of(outcome: Any) -> list[torch.Tensor]:
    """The tensors in what an operator returned, in order."""
    return [part for part in tree_flatten(outcome)[0] if isinstance(part, torch.Tensor)]


def can_be_differentiated(tensor: torch.Tensor) -> bool:
    """Whether a gradient of this result, or for this input, can be asked for."""
    return tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex())


def evaluate(operator: Any, sample: Any, device: str, seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Make one call; return its results and the gradients of its inputs, all on the CPU."""
    torch.manual_seed(seed)
    arguments, named = tree_map(lambda value: on_device(value, device), ((sample.input, *sample.args), sample.kwargs))
    if operator.name in HOST_ARGUMENTS:
        arguments = (arguments[0], *sample.args)
    inputs = [tensor for tensor in tensors_of((arguments, named)) if can_be_differentiated(tensor)]
    outcome = operator.op(*arguments, **named)
    plain = [part for part in tree_flatten(outcome)[0] if isinstance(part, bool | int | float | complex)]
    results = tensors_of(outcome) + [torch.tensor(part) for part in plain]
    gradients: list[torch.Tensor] = []
    differentiable = [
        tensor for tensor in tensors_of(sample.output_process_fn_grad(outcome)) if can_be_differentiated(tensor)
    ]
    if operator.supports_autograd and differentiable and inputs:
        generator = torch.Generator().manual_seed(SEED)
        directions = [
            torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator).to(device) for tensor in differentiable
        ]
        found = torch.autograd.grad(differentiable, inputs, directions, allow_unused=True)
        gradients = [gradient for gradient in found if gradient is not None]
    return [result.detach().cpu() for result in results], [gradient.detach().cpu() for gradient in gradients]


def is_random(operator: Any, sample: Any) -> bool:
    """Whether the results on the CPU depend on random numbers, which no two devices have in common.

    The database wraps such operators: they set a seed of their own, which is replaced here.
    """
    set_seed = torch.manual_seed

    def with_seed(seed: int) -> tuple[Any, bool]:
        with mock.patch.object(torch, "manual_seed", side_effect=lambda _: set_seed(seed)) as seeded:
            before = set_seed(seed).get_state()
            found = evaluate(operator, sample, "cpu", seed)
            return found, seeded.call_count > 1 or not torch.equal(torch.get_rng_state(), before)

    first, has_drawn = with_seed(SEED)
    return has_drawn and not all(same(first, with_seed(SEED + other)[0]) for other in range(1, OTHER_SEEDS))


def same(left: Any, right: Any) -> bool:
    """Whether two evaluations agree."""
    return all(
        one.shape == other.shape and torch.allclose(one, other, equal_nan=True, rtol=RELATIVE, atol=ABSOLUTE)
        for one, other in zip(left[0] + left[1], right[0] + right[1], strict=True)
    )


def compare(operator: Any, sample: Any) -> None:
    """Raise unless one sample has the same results and gradients on both devices."""
    expected = evaluate(operator, sample, "cpu", SEED)
    found = evaluate(operator, sample, "npu", SEED)
    only_shapes = operator.name.startswith(UNINITIALISED) or is_random(operator, sample)
    for what, left, right in zip(("results", "gradients"), found, expected, strict=True):
        assert len(left) == len(right), f"{len(left)} {what} instead of {len(right)}"
        for result, right_one in zip(left, right, strict=True):
            pair = (torch.zeros_like(result), torch.zeros_like(right_one)) if only_shapes else (result, right_one)
            torch.testing.assert_close(
                *pair, equal_nan=True, rtol=RELATIVE, atol=ABSOLUTE, msg=lambda text, what=what: f"{what}: {text}"
            )


def samples_of(operator: Any) -> Iterator[Any]:
    """The samples that the database would call the operator with."""
    torch.manual_seed(SEED)
    kind = element_type(operator)
    differentiable = operator.supports_autograd and (kind.is_floating_point or kind.is_complex)
    return iter(operator.sample_inputs("cpu", kind, requires_grad=differentiable))


def outcome_of(operator: Any) -> dict[str, Any]:
    """How many samples there are, and what those say that do not agree, by their numbers."""
    failures: dict[int, str] = {}
    count = 0
    if operator.dtypes and not operator.name.startswith(NOT_ON_THE_CPU):
        for sample in samples_of(operator):
            count += 1
            try:
                compare(operator, sample)
            except Exception as error:
                lines = [line for line in str(error).splitlines() if line.strip()]
                failures[count] = f"{type(error).__name__}: {' '.join(lines)[:TEXT_LENGTH]}"
    return {"samples": count, "failures": failures}


class Child:
    """One operator in a forked process."""

    def __init__(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self.reading, writing = os.pipe()
        self.deadline = time.monotonic() + LIMIT_S
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - until the outcome is asked for
        self.process = os.fork()
        if self.process == 0:
            os.close(self.reading)
            os.dup2(self.words.fileno(), 2)
            os.dup2(self.words.fileno(), 1)
            with os.fdopen(writing, "w") as answer:
                json.dump(work(), answer)
            os._exit(0)
        os.close(writing)

    def outcome(self) -> dict[str, Any]:
        """Wait for the end, not longer than the limit; what it said, or how it ended."""
        said = b""
        while select.select([self.reading], [], [], max(0.0, self.deadline - time.monotonic()))[0]:
            part = os.read(self.reading, 1 << 16)
            if not part:
                break
            said += part
        else:
            os.kill(self.process, signal.SIGKILL)
        os.close(self.reading)
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        self.words.seek(0)
        words = self.words.read().decode(errors="replace").strip()[-TEXT_LENGTH:]
        self.words.close()
        if status == 0:
            return json.loads(said)  # type: ignore[no-any-return]
        return {"samples": 1, "failures": {0: f"the process ended with status {status}: {words}"}}


def main() -> None:
    """Run the named operators, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = {name_of(operator): operator for operator in op_db}
    waiting = [name for name in sorted(known) if {name, family_of(name)} & set(options.names)]
    running: list[Child] = []
    outcomes: dict[str, dict[str, Any]] = {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            running.append(Child(name, functools.partial(outcome_of, known[name])))
        child = running.pop(0)
        outcomes[child.name] = child.outcome()
    options.file.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
