"""Tensors that are read where torch keeps them read as Python says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope import _native

torch = pytest.importorskip("torch")

from msmemscope.capture import tensor_layout  # noqa: E402 - needs torch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.torch

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.fixture(autouse=True)
def learned() -> Iterator[None]:
    """Each test begins with the layout of this torch, and leaves none behind."""
    assert tensor_layout.learn_tensor_layout()
    yield
    _native.forget_tensor_layout()


def said_by_python(tensor: Any) -> tuple[Any, ...]:
    """The values that the native code reads, taken from attributes."""
    address = torch._C._data_address(tensor)
    place = (address, tensor.storage_offset(), tensor.numel(), tensor.element_size())
    return (*place, tuple(tensor.shape), tensor.stride())


@given(
    shape=st.lists(st.integers(0, 4), max_size=8),
    strides=st.lists(st.integers(0, 15), min_size=8, max_size=8),
    offset=st.integers(0, 30),
    dtype=st.sampled_from(DTYPES),
    is_parameter=st.booleans(),
)
def test_tensors_read_as_python_says(
    shape: list[int], strides: list[int], offset: int, dtype: Any, *, is_parameter: bool
) -> None:
    """Views of any shape, strides, offset and type; parameters, too."""
    base = torch.zeros(512).to(dtype)
    tensor = base.as_strided(shape, strides[: len(shape)], offset)
    if is_parameter and dtype.is_floating_point:
        tensor = torch.nn.Parameter(tensor)
    assert _native.tensor_memory(tensor) == said_by_python(tensor)


def test_what_changes_is_read_anew() -> None:
    """A tensor that gets another shape, storage or type."""
    tensor = torch.ones(4, 3)
    tensor.resize_(8, 2)
    assert _native.tensor_memory(tensor) == said_by_python(tensor)
    tensor.data = torch.ones(5, dtype=torch.float32)
    assert _native.tensor_memory(tensor) == said_by_python(tensor)
    tensor.set_(torch.zeros(40).untyped_storage(), 3, (2, 2), (7, 1))
    assert _native.tensor_memory(tensor) == said_by_python(tensor)
    tensor.untyped_storage().resize_(0)
    assert _native.tensor_memory(tensor) == said_by_python(tensor)
    assert said_by_python(tensor)[0] == 0


@pytest.mark.filterwarnings("ignore")  # torch says that it is not yet sure of some of them
def test_other_tensors_are_left_to_python() -> None:
    """Such that have no plain memory, or a class of their own; and what is no tensor."""

    class Own(torch.Tensor):  # type: ignore[name-defined] # torch may be missing
        pass

    others = (
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        torch.ones(3).as_subclass(Own),
        torch.nn.UninitializedParameter(),
        torch.Size([1]),
        None,
        3,
    )
    assert [_native.tensor_memory(other) for other in others] == [None] * len(others)


def test_reading_copies_nothing() -> None:
    """A copy that torch puts off until it is needed is still put off."""
    tensor = torch.ones(100)
    copy = torch._lazy_clone(tensor)
    memory = _native.tensor_memory(copy)
    assert memory is not None
    assert memory[0] == torch._C._data_address(tensor) == torch._C._data_address(copy)


@pytest.mark.parametrize("field", range(1, 13))
def test_a_layout_that_does_not_fit_is_not_believed(field: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sample with one wrong number is enough: all tensors are read through Python then."""
    described = tensor_layout._describe
    other = torch.ones(3)
    count = 0

    def wrongly(tensor: Any) -> tuple[Any, ...]:
        nonlocal count
        count += 1
        told = list(described(tensor))
        if count == 20:
            wrong = told[field]
            # Of addresses, one that can be read: another tensor's.
            told[field] = (*wrong[:-1], wrong[-1] + 1) if isinstance(wrong, tuple) else wrong + 1
            if field in {1, 2}:
                told[field] = described(other)[field]
        return tuple(told)

    monkeypatch.setattr(tensor_layout, "_describe", wrongly)
    assert not tensor_layout.learn_tensor_layout()
    assert count > 20
    assert _native.tensor_memory(other) is None


def test_nothing_is_tried_where_the_program_would_see_it() -> None:
    """Modes and transforms of the program would see how samples are made."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(func)

    with Mode():
        assert not tensor_layout.learn_tensor_layout()

    def transformed(x: Any) -> Any:
        assert not tensor_layout.learn_tensor_layout()
        return x * 2

    assert torch.func.vmap(transformed)(torch.ones(3)).tolist() == [2, 2, 2]
    with torch.device("meta"):
        assert tensor_layout.learn_tensor_layout()
