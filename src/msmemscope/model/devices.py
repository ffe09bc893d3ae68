"""Devices: a kind and an index, the table of kinds, and how devices are written.

Events hold a device as one number, `kind * DEVICES_PER_KIND + index`, as in `native/core/format/record.h`; a contract
test compares the two. The table of kinds alone has a vendor's names of things, and the advice that only holds for its
devices. This module is imported inside the observed process, so it imports nothing but `enum` and `typing`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

DEVICE_NONE: Final = -1
"""Value of an event's device when it belongs to none."""
DEVICE_CPU: Final = -2
"""Value of an event's device for memory of the host."""
DEVICES_PER_KIND: Final = 1024
"""Indices of a kind are 0 to one less."""

NOT_AVAILABLE: Final = "N/A"
"""The text of dumps where a value does not exist or is not known."""
CPU_WORD: Final = "cpu"


class DeviceKind(IntEnum):
    """Kinds of accelerators."""

    NPU = 0
    CUDA = 1
    XPU = 2
    MPS = 3


class KindNames(NamedTuple):
    """The names that people, PyTorch and a vendor have for a kind of device and its parts."""

    word: str
    """As PyTorch names devices: `npu` of `npu:0`."""
    plain_index: bool
    """Dumps write the index alone, without the word."""
    runtime: str
    """The vendor's software that programs use."""
    allocator: str
    """PyTorch's caching allocator of the kind."""
    allocator_variable: str
    """The environment variable with the allocator's settings."""
    extension: str
    """The folder of the package or library that PyTorch needs for the kind, where it is one of its own."""
    module: str
    """PyTorch's module of the kind."""
    driver: str
    """The word for memory of the driver, for people."""
    look_at_device: str
    """A command that shows who uses a device."""
    queue_variable: str
    """The environment variable that is 0 for launches on the calling thread; empty where all launches are."""


KIND_NAMES: Final[dict[DeviceKind, KindNames]] = {
    DeviceKind.NPU: KindNames(
        "npu",
        True,
        "CANN",
        "NPUCachingAllocator",
        "PYTORCH_NPU_ALLOC_CONF",
        "torch_npu",
        "torch.npu",
        "HAL",
        "npu-smi info",
        "TASK_QUEUE_ENABLE",
    ),
    DeviceKind.CUDA: KindNames(
        "cuda",
        False,
        "CUDA",
        "CUDACachingAllocator",
        "PYTORCH_CUDA_ALLOC_CONF",
        "c10/cuda",
        "torch.cuda",
        "driver",
        "nvidia-smi",
        "",
    ),
    DeviceKind.XPU: KindNames(
        "xpu",
        False,
        "oneAPI",
        "XPUCachingAllocator",
        "PYTORCH_XPU_ALLOC_CONF",
        "c10/xpu",
        "torch.xpu",
        "driver",
        "xpu-smi ps",
        "",
    ),
    DeviceKind.MPS: KindNames(
        "mps",
        False,
        "Metal",
        "MPSAllocator",
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO",
        "aten/src/ATen/mps",
        "torch.mps",
        "driver",
        "top -o mem",
        "",
    ),
}
_KIND_OF_WORD: Final = {names.word: kind for kind, names in KIND_NAMES.items()}
KIND_WORDS: Final = (CPU_WORD, *_KIND_OF_WORD)
"""All words of kinds."""


def device_number(kind: DeviceKind, index: int) -> int:
    """Return a device as events have it.

    Raises:
        ValueError: No device has this index.
    """
    if not 0 <= index < DEVICES_PER_KIND:
        message = f"no index of a device: {index} (0 to {DEVICES_PER_KIND - 1})"
        raise ValueError(message)
    return kind * DEVICES_PER_KIND + index


def kind_of(device: int) -> DeviceKind | None:
    """Return the kind of an accelerator; None for the cpu, for none, and for kinds that are not known."""
    kind = device // DEVICES_PER_KIND
    return DeviceKind(kind) if kind in KIND_NAMES else None


def names_of(device: int) -> KindNames:
    """Return the names of things on a device; for the cpu and for none, those of an NPU."""
    return KIND_NAMES[kind_of(device) or DeviceKind.NPU]


def is_accelerator(device: int) -> bool:
    """Whether a device is neither the cpu nor none."""
    return device >= 0


def device_word(device: int) -> str:
    """Return how dumps write a device: `0` for an NPU, `cuda:0`, `cpu`, or `N/A` for none."""
    kind = kind_of(device)
    return str(device % DEVICES_PER_KIND) if kind is not None and KIND_NAMES[kind].plain_index else device_name(device)


def device_name(device: int) -> str:
    """Return the name of a device for people: as the option `--device` has it."""
    kind = kind_of(device)
    if kind is not None:
        return f"{KIND_NAMES[kind].word}:{device % DEVICES_PER_KIND}"
    return CPU_WORD if device == DEVICE_CPU else NOT_AVAILABLE


def parse_device_name(text: str) -> int | None:
    """Read a device: `cpu`, `npu:3`, `cuda:0`, or the index of an NPU alone.

    Returns:
        The device as events have it; None if it is none.
    """
    word, colon, index = text.strip().lower().rpartition(":")
    if not colon and index == CPU_WORD:
        return DEVICE_CPU
    kind = _KIND_OF_WORD.get(word) if colon else DeviceKind.NPU
    is_index = index.isascii() and index.isdecimal() and index == str(int(index[: len(str(DEVICES_PER_KIND))]))
    if kind is None or not is_index or int(index) >= DEVICES_PER_KIND:
        return None
    return device_number(kind, int(index))
