"""The variable that settings of pinned memory are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.model.devices import KIND_NAMES, DeviceKind, kind_of

if TYPE_CHECKING:
    from msmemscope.recording import Recording

COMMON: Final = "PYTORCH_ALLOC_CONF"
"""Of PyTorch itself: it has settings of pinned memory from version 2.13 on."""


def pinned_settings(recording: Recording) -> str:
    """Return the name of the environment variable: torch_npu has one of its own.

    Args:
        recording: With MALLOC events.
    """
    kinds = {kind_of(device) for device in recording.blocks["device"].unique()}
    return KIND_NAMES[DeviceKind.NPU].allocator_variable if DeviceKind.NPU in kinds else COMMON
