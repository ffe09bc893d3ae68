"""Calls operators in one of the ways in which programs do, and prints what came of it.

Usage: operator_calls.py WAY. Each prints its numbers in full, so that two runs can be compared to the bit.
"""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
torch.set_num_threads(1)

WAYS: dict[str, Callable[[], Any]] = {}


def way(function: Callable[[], Any]) -> Callable[[], Any]:
    """List a function under its name."""
    WAYS[function.__name__] = function
    return function


@way
def training() -> Any:
    """Modules, a loss, gradients, an optimizer over lists of tensors."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    losses = []
    for foreach in (False, True):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=foreach)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(torch.randn(2, 1, 8, 8)), torch.tensor([1, 3]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    return losses, torch.cat([parameter.flatten() for parameter in model.parameters()]).sum()


@way
def shapes_and_types() -> Any:
    """Tensors of all dimensions and types, with offsets, without elements, conjugated, in memory that is not torch's."""
    results = []
    for dimensions in [*range(9)] * 2:
        base = torch.arange(3.0**dimensions).reshape((3,) * dimensions)
        results += [base.neg().sum(), base[..., :2].sum() if dimensions else base]
    for dtype in (torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float16, torch.float64, torch.complex64):
        results += [torch.ones(4, 3).to(dtype)[1:, ::2].clone()]
    imaginary = torch.ones(3, dtype=torch.complex64) * 1j
    results += [imaginary.conj() + 1, imaginary.conj().imag.add(1), torch.empty(0, 5) + 1, torch.ones(5)[5:] + 1]
    results.append(torch.frombuffer(bytearray(64), dtype=torch.float32)[3:] + 1)
    results.append(torch.ones(3).to(torch.float8_e4m3fn).to(torch.float32) + 1)
    results.append(torch.ones(3).to(torch.float8_e4m3fn).to(torch.float32) + 1)
    return results


@way
def arguments() -> Any:
    """Lists, nothing, numbers and names as arguments; results that are tuples, lists, numbers and given tensors."""
    x = torch.randn(4, 4)
    out = torch.empty(4, 4)
    torch.mul(x, 2, out=out)
    torch.ops.aten.add.Tensor(self=x, other=x, alpha=3)
    results: list[Any] = [out, *x.split([1, 3]), *torch.sort(x), torch.stack([x, out]), x.max().item()]
    results.append(nn.functional.layer_norm(x, (4,), None, None))
    results.append(x[[0, 2], None, [1, 3]])
    results.append(torch.embedding_bag(x, torch.tensor([0, 1, 2]), torch.tensor([0, 2]))[0])
    torch._foreach_add_([x, out], [out, out])
    return [*results, x, torch.ops.aten.sym_size.int(x, 0), torch.linalg.inv_ex(x)[1]]


@way
def numbers() -> Any:
    """Numbers, and tensors on the host without dimensions, in front of tensors of the device."""
    x, host = torch.ones(4, 4), torch.tensor(3.0, device="cpu")
    return [2.0 - x, 1 / x, 2**x, host - x, x.sum() * host, x.add_(5), host.mul(x.sum()), host + 1]


@way
def nested_lists() -> Any:
    """Collectives take lists of lists of tensors."""
    from torch import distributed

    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    gathered = [torch.zeros(8, device="cpu")]
    distributed.all_gather(gathered, torch.ones(8, device="cpu"))
    distributed.destroy_process_group()
    return gathered


@way
def failures() -> Any:
    """Operators that raise: their errors, the tensors that they leave behind, and what follows."""
    messages = []
    kept = []
    for wrong in (
        lambda x: x @ torch.ones(2, 3),
        lambda x: x.view(5),
        lambda x: torch.cat([x, torch.ones(2, dtype=torch.bool)]),
        lambda x: x.index_select(0, torch.tensor([9])),
        torch.ops.aten.add.Tensor,
        lambda x: torch.ops.aten.add.Tensor(x, x, beta=1),
    ):
        x = torch.ones(2, 3)
        kept.append(weakref.ref(x))
        try:
            wrong(x)
        except Exception as error:
            messages.append(f"{type(error).__name__}: {str(error).splitlines()[0]} {error.__context__!r}")
        del x
    return messages, [reference() is None for reference in kept], torch.ones(2) + 1


@way
def tracebacks() -> Any:
    """The functions that an error of an operator came through."""
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError as error:
        return [entry.name for entry in traceback.extract_tb(error.__traceback__)]


@way
def custom_operators() -> Any:
    """Operators that are written in Python and call others; one raises from within; one is gone while the program runs."""

    @torch.library.custom_op("mine::scaled", mutates_args={"into"})
    def scaled(values: torch.Tensor, into: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        if by < 0:
            msg = "negative"
            raise ValueError(msg)
        into.copy_(values)
        return values * by + into

    results: list[Any] = []
    for by in (2.0, -1.0, 0.5):
        into = torch.zeros(3)
        try:
            results.append(scaled(torch.ones(3), into, by=by))
        except ValueError as error:
            results.append(repr(error))
        results.append(into)
    passing: list[tuple[str, Callable[..., Any], int]] = [
        ("Tensor x", lambda x: x * 2, 1),
        ("Tensor x", lambda x: x * 3, 1),
        ("Tensor(a!) x", lambda x: x.mul_(4) + 1, 1),
        ("Tensor x, Tensor(b!) y", lambda x, y: x * y.add_(1), 2),
    ]
    for arguments, function, count in passing:
        with torch.library._scoped_library("passing", "FRAGMENT") as library:
            library.define(f"twice({arguments}) -> Tensor")
            library.impl("twice", function, "CompositeExplicitAutograd")
            results.append(torch.ops.passing.twice(*(torch.ones(2) for _ in range(count))))
            results.append(torch.ops.passing.twice(*(torch.ones(3) for _ in range(count))))
        delattr(torch.ops, "passing")
        gc.collect()
    return results


@way
def lifetimes() -> Any:
    """Nothing keeps arguments or results longer than the program does."""
    x, y = torch.ones(16), torch.ones(16)
    z = x + y
    counts = [sys.getrefcount(each) for each in (x, y, z)]
    references = [weakref.ref(each) for each in (x, y, z)]
    shared = torch._lazy_clone(x)
    address = torch._C._data_address(x)
    total = (shared + 1).sum()
    still_lazy = torch._C._data_address(shared) == address
    del x, y, z
    return counts, [reference() is None for reference in references], total, still_lazy


@way
def subclasses() -> Any:
    """Subclasses that dispatch by themselves, such that only see functions, and parameters of both."""

    class Named(torch.Tensor):
        pass

    class Logged(torch.Tensor):
        seen: list[str] = []  # noqa: RUF012 - of all of them

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Logged.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    named = torch.randn(3, 3).as_subclass(Named)
    logged = torch.randn(3, 3).as_subclass(Logged)
    parameter = nn.Parameter(torch.randn(3, 3))
    results = [named @ parameter + 1, logged[1:] * 2, nn.UninitializedParameter(), parameter.detach()]
    (named * parameter).sum().backward()
    return [*map(str, results), parameter.grad, Logged.seen]


@way
def modes() -> Any:
    """Modes of the program above and below ours, one that changes results, and the calling of ours by name."""

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.add.Tensor else result

    with Doubling(), Doubling():
        results = [torch.ones(3) + 1]
    with torch.device("meta"):
        results.append(torch.empty(3, 4) + 1)
    with torch.inference_mode():
        results.append(torch.ones(3) * 3)
    add = torch.ops.aten.add.Tensor
    ours = torch.utils._python_dispatch._get_current_dispatch_mode()
    if ours is not None:
        with torch.utils._python_dispatch._disable_current_modes():
            one = torch.ones(2)
            by_name = ours.__torch_dispatch__(add, types=(), args=(one,), kwargs={"other": one})
            assert by_name.tolist() == [2, 2]
            assert ours.__torch_dispatch__(add, (), (one, one)).tolist() == [2, 2]
            assert ours.__torch_dispatch__(torch.ops.aten.sum.default, [], (one,), {}).item() == 2
    else:
        add(torch.ones(2), torch.ones(2))
    return results


@way
def replaced_call() -> Any:
    """A program that puts a function of its own in the place of the call of operators, and takes it away again."""
    original = OpOverload.__call__
    seen: list[str] = []

    def noticed(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        seen.append(str(self))
        return original(self, *args, **kwargs)

    results = [torch.ones(3) + 1]
    OpOverload.__call__ = noticed  # type: ignore[method-assign]
    torch.ops.aten.add.Tensor(torch.ones(3), 2)
    OpOverload.__call__ = original  # type: ignore[method-assign]
    results.append(torch.ones(3) + 3)
    return results, "aten.add.Tensor" in seen


@way
def recomputation() -> Any:
    """Operators within backward passes: gradients of gradients, hooks, functions of the program, checkpoints."""
    from torch.utils.checkpoint import checkpoint

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x.square() * gradients[0]

    x = torch.randn(5, requires_grad=True)
    x.register_hook(lambda gradient: gradient * 2)
    (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    first.sum().backward()
    layer = nn.Linear(5, 5)
    for reentrant in (True, False):
        checkpoint(lambda t: layer(t).relu().sin(), x, use_reentrant=reentrant).sum().backward()
    return x.grad, layer.weight.grad


@way
def compiled() -> Any:
    """Compiled code; some of it is traced to operators."""

    def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden = (x @ weight).relu().view(-1, 4) * 2
        hidden.add_(1)
        return hidden.sum()

    weight = torch.randn(8, 8, requires_grad=True)
    function = torch.compile(step, backend="aot_eager")
    for rows in (4, 4, 6):
        function(torch.randn(rows, 8), weight).backward()
    return weight.grad


def main() -> None:
    """Call them in one way."""
    torch.set_printoptions(precision=17)
    print(repr(WAYS[sys.argv[1]]()))


if __name__ == "__main__":
    main()
