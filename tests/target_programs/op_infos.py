"""Calls the operators of torch's own tests in several ways, and writes down all that a program can see of each call.

Arguments: the file to write to; a byte; the number of samples per operator; names of entries of torch's list, or
numbers as FIRST:END. The byte fills memory that is handed out; the inverted byte fills memory that is given back. So
results that are read from memory that nobody wrote differ where the byte does.

Each line is a call, a tab, and what came of it. An entry begins with a line of its own, to show where a process died.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TextIO

import torch
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler_legacy, _enable_profiler_legacy
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

DTYPES = (torch.float32, torch.complex64, torch.int64)
MOST_SAMPLES = 60
"""Of those that an entry has; what is called is spread over them."""
LARGEST = 1 << 18
"""Samples with tensors of more elements are left out: they take long, and show nothing else."""
BROKEN_INTO_GIVEN = frozenset({"linalg.lu", "lu_unpack"})
"""Entries that in torch itself write beyond tensors that are given and are not laid out as they would make them."""
WITHOUT_BITS = frozenset({"linalg.lstsq"})
"""Entries whose last bits differ from run to run without the tool: those of LAPACK depend on where memory begins."""
_FILL = -6  # M_PERTURB of malloc.h
_CONFIG = ProfilerConfig(
    ProfilerState.CPU,
    False,
    True,
    False,
    False,
    False,
    torch._C._profiler._ExperimentalConfig(),
)


class Call(NamedTuple):
    """A function, and the arguments to call it with."""

    function: Callable[..., Any]
    arguments: list[Any]
    keywords: dict[str, Any]


def hash_of(tensor: torch.Tensor) -> str:
    """Return a hash of the bytes of its elements."""
    whole = tensor.detach().resolve_conj().resolve_neg().contiguous()
    data = ctypes.string_at(
        whole.data_ptr(), whole.nbytes
    )  # not by way of numpy: no storage that it has seen is resized
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def text_of(value: Any, storages: dict[int, int], *, with_bits: bool = True) -> str:
    """Return what a program can see of a value.

    Args:
        value: A tensor, or anything else.
        with_bits: Whether the bits of its elements are compared, too.
        storages: Numbers of storages that were seen, to say which values share one; those of this value are added.
    """
    if not isinstance(value, torch.Tensor):
        return without_addresses(value.hex() if isinstance(value, float) else repr(value))
    if value.layout is not torch.strided or value.is_quantized or type(value) is not torch.Tensor:
        return without_addresses(repr(value))
    storage = value.untyped_storage()
    last = value.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    is_whole = (
        not value.numel() or (last + 1) * value.itemsize <= storage.nbytes()
    )  # an operator that raises may leave others
    place = storages.setdefault(storage._cdata, len(storages))
    signs = f"{'conj ' * value.is_conj()}{'neg ' * value.is_neg()}{'zero ' * value._is_zerotensor()}"
    function = type(value.grad_fn).__name__ if value.grad_fn is not None else value.requires_grad
    if not with_bits or value._is_zerotensor():  # the memory of one of zeros is never written
        elements = "any"
    else:
        elements = hash_of(value) if is_whole else "beyond its storage"
    return (
        f"{value.dtype} {tuple(value.shape)} {value.stride()} +{value.storage_offset()} version={value._version} {signs}"
        f"storage={place} of {storage.nbytes()} grad={function} {elements}"
    )


def without_addresses(text: str) -> str:
    """Return a text without what differs from process to process."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def observed(call: Call, *, with_bits: bool = True) -> str:
    """Call, and return what came of it: its results, what it did to its arguments, its warnings, and its memory.

    Args:
        call: The function, and its arguments.
        with_bits: Whether the bits of what it computes are compared, too.
    """
    torch.manual_seed(0)
    arguments = [leaf for leaf in tree_leaves((call.arguments, call.keywords)) if isinstance(leaf, torch.Tensor)]
    storages: dict[int, int] = {}
    before = [text_of(each, storages, with_bits=with_bits) for each in arguments]
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _enable_profiler_legacy(_CONFIG)
        try:
            result, error = call.function(*call.arguments, **call.keywords), ""
        except Exception as raised:
            result, error = None, without_addresses(f"{type(raised).__name__}: {raised}")
        events = _disable_profiler_legacy()
    # Not what is given back: the size of a block that was there before is not known, or that of another one.
    sizes = (event.cpu_memory_usage() for thread in events for event in thread if event.kind() == "memory_alloc")
    taken = [size for size in sizes if size > 0]
    after = [text_of(each, storages, with_bits=with_bits) for each in arguments]
    parts = [
        f"allocated {len(taken)} of {sum(taken)} B",
        f"results {[text_of(each, storages, with_bits=with_bits) for each in tree_leaves(result)]}"
        if not error
        else f"raised {error!r}",
        f"arguments {before}",
        *([f"changed to {after}"] if after != before else []),
        *(f"warned {warning.category.__name__}: {without_addresses(str(warning.message))!r}" for warning in said),
        f"random {hash_of(torch.get_rng_state())}",
    ]
    return " | ".join(parts)


def copied(sample: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a sample with each tensor changed, and those the operator is called with by name."""
    whole = ([sample.input, *sample.args], dict(sample.kwargs))
    changed: tuple[list[Any], dict[str, Any]] = tree_map_only(torch.Tensor, change, whole)
    return changed


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that knows of no gradients."""
    return tensor.detach().clone()


def as_conjugate(tensor: torch.Tensor) -> torch.Tensor:
    """Return an equal tensor that is conjugated where it is read."""
    if not tensor.is_complex() or tensor.layout is not torch.strided:
        return clone(tensor)
    return torch.conj(tensor.detach().conj_physical())


def as_negative(tensor: torch.Tensor) -> torch.Tensor:
    """Return an equal tensor that is negated where it is read."""
    if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
        return clone(tensor)
    return torch._neg_view(tensor.detach().neg())


def as_strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return an equal tensor with gaps between its elements."""
    if tensor.layout is not torch.strided or not tensor.dim():
        return clone(tensor)
    wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
    wide[..., 1] = tensor.detach()
    return wide[..., 1]


def as_leaf(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a change after which gradients are wanted."""

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        changed = change(tensor)
        return changed.requires_grad_() if changed.is_floating_point() or changed.is_complex() else changed

    return leaf


def backward_of(entry: Any, sample: Any) -> Callable[..., list[Any]]:
    """Return a function that calls an operator and gives back its results and the gradients of its arguments."""

    def forward_and_backward(*arguments: Any, **keywords: Any) -> list[Any]:
        given = tree_leaves((arguments, keywords))
        leaves = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        results = sample.output_process_fn_grad(entry(*arguments, **keywords))
        differentiable = [
            leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        torch.autograd.backward(differentiable, [torch.ones_like(result) for result in differentiable])
        gradients = [leaf.grad for leaf in leaves]
        return [results, gradients]

    return forward_and_backward


def outputs_like(expected: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return tensors to write into, of the same structure; None where the results are not tensors."""
    results = tree_leaves(expected)
    if not results or not all(isinstance(each, torch.Tensor) and each.layout is torch.strided for each in results):
        return None
    made = tuple(make(each) for each in results)
    return made[0] if isinstance(expected, torch.Tensor) else made


def reversed_strides(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros of the same shape that lie in the opposite order."""
    return torch.zeros(tensor.shape[::-1], dtype=tensor.dtype).permute(tuple(range(tensor.dim()))[::-1])


def calls_of(entry: Any, sample: Any, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield the ways to call an entry with a sample; what is made for one is gone when the next is asked for."""
    yield "forward", Call(entry, *copied(sample, clone))
    yield "strided", Call(entry, *copied(sample, as_strided))
    if dtype.is_complex:
        yield "conjugate", Call(entry, *copied(sample, as_conjugate))
    yield "negative", Call(entry, *copied(sample, as_negative))
    if entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu"):
        backward = backward_of(entry, sample)
        yield "backward", Call(backward, *copied(sample, as_leaf(clone)))
        if dtype.is_complex:
            yield "conjugate backward", Call(backward, *copied(sample, as_leaf(as_conjugate)))
        yield "negative backward", Call(backward, *copied(sample, as_leaf(as_negative)))
    in_place = entry.get_inplace()
    if in_place is not None:
        yield "in place", Call(in_place, *copied(sample, clone))
        yield "strided in place", Call(in_place, *copied(sample, as_strided))
        lazy = as_conjugate if dtype.is_complex else as_negative
        yield "lazy in place", Call(in_place, *copied(sample, lazy))
    if entry.supports_out and entry.name not in BROKEN_INTO_GIVEN:
        arguments, keywords = copied(sample, clone)
        try:
            expected = entry(*arguments, **keywords)
        except Exception:
            return
        makes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "out": reversed_strides,
            "resized out": lambda tensor: torch.empty(0, dtype=tensor.dtype),
            "out of another size": lambda tensor: torch.zeros(3, dtype=tensor.dtype),
        }
        for variant, make in makes.items():
            out = outputs_like(expected, make)
            if out is not None:
                arguments, keywords = copied(sample, clone)
                yield variant, Call(entry, arguments, {**keywords, "out": out})


def samples_of(entry: Any, dtype: torch.dtype, count: int) -> list[tuple[int, Any]]:
    """Return small samples of an entry, spread over what it has, with their numbers."""
    torch.manual_seed(0)
    # Not `islice(entry.sample_inputs(...))` alone: each entry has its own, and some are lists.
    every = list(enumerate(islice(entry.sample_inputs("cpu", dtype, requires_grad=False), MOST_SAMPLES)))
    small = [(number, sample) for number, sample in every if is_small(sample)]
    return small[:: max(1, -(-len(small) // count))]


def is_small(sample: Any) -> bool:
    """Whether no tensor of a sample has many elements."""
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return all(leaf.numel() <= LARGEST for leaf in leaves if isinstance(leaf, torch.Tensor))


def call_entry(entry: Any, count: int, file: TextIO) -> None:
    """Call an entry in all ways."""
    name = f"{entry.name}{'.' * bool(entry.variant_test_name)}{entry.variant_test_name}"
    file.write(f"{name}\tbegins\n")
    for dtype in DTYPES:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        for number, sample in samples_of(entry, dtype, count):
            kind = f"{str(dtype).removeprefix('torch.')}, sample {number}"
            try:
                for variant, call in calls_of(entry, sample, dtype):
                    line = observed(call, with_bits=entry.name not in WITHOUT_BITS).replace("\n", " ")
                    file.write(f"{name}, {variant}, {kind}\t{line}\n")
            except Exception as error:  # what a call raises is written down: it is one that cannot be made
                file.write(f"{name}, {kind}\tcannot be called further: {without_addresses(repr(error))[:200]}\n")
    if entry.error_inputs_func is not None:
        torch.manual_seed(0)
        # Some of these samples are tensors that nobody has written to.
        for number, error in enumerate(islice(entry.error_inputs("cpu"), 4 * count)):
            line = observed(Call(entry, *copied(error.sample_input, clone)), with_bits=False).replace("\n", " ")
            file.write(f"{name}, refused, sample {number}\t{line}\n")


def chosen(words: list[str]) -> list[Any]:
    """Return entries by their places in the list, or by their names."""
    if len(words) == 1 and ":" in words[0]:
        first, end = map(int, words[0].split(":"))
        return op_db[first:end]
    return [entry for entry in op_db if f"{entry.name}.{entry.variant_test_name}".removesuffix(".") in words]


def main() -> None:
    """Call each entry that is asked for."""
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    ctypes.CDLL(None).mallopt(_FILL, int(sys.argv[2]))
    gc.disable()  # what is freed during a call depends on the call alone
    with open(sys.argv[1], "w", encoding="utf-8", buffering=1) as file:  # noqa: PTH123 - each line is there if we die
        for entry in chosen(sys.argv[4:]):
            call_entry(entry, int(sys.argv[3]), file)
            gc.collect()


if __name__ == "__main__":
    main()
