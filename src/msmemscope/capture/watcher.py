"""`watcher.watch` and `watcher.remove`: watched memory, where every change is recorded, whoever makes it.

Here targets are checked and turned into addresses. The native core (`native/watch`) does the work before and after each
operator. torch is never imported here. It is only used if the program has imported it.
"""

from __future__ import annotations

import re
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from msmemscope import _native
from msmemscope.capture.current_device import current_device, device_of
from msmemscope.capture.session import session
from msmemscope.capture.watched_devices import WATCHED_DEVICES, warn_of_concurrent_launches
from msmemscope.capture.watched_parameters import await_optimizer
from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, device_name

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME_BYTES = 64
_LARGEST_ADDRESS = 2**63
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ACCEPTED_TARGET = "a torch.Tensor on the cpu, an NPU or a CUDA device, or an address (int) with length="
_UNLIMITED = -1

_reported: set[str] = set()


class _Memory(NamedTuple):
    """Where a target lies."""

    is_tensor: bool
    is_trained: bool
    """It is a parameter: an optimizer may be meant to write it."""
    address: int
    item_bytes: int
    shape: Sequence[int]
    strides: Sequence[int]
    device: int
    """`DEVICE_NONE` where the native core knows better."""


@overload
def watch(target: Any, *, name: str, dump_nums: int | None = None) -> None: ...
@overload
def watch(target: int, *, length: int, name: str, dump_nums: int | None = None) -> None: ...
def watch(target: Any, *, name: str, dump_nums: int | None = None, length: int | None = None) -> None:
    """Watch memory from now on: whatever changes it is recorded, with the operator during which it happened.

    ::

        msmemscope.watcher.watch(tensor, name="weights", dump_nums=2)
        msmemscope.watcher.watch(tensor.data_ptr(), length=1000, name="weights")

    While collection is on, the memory is looked at before and after every operator. Its checksum at that moment goes to
    `watch_dump/` under the output folder, or with `full-content` in `--watch` its content. A watch of the same address
    that is there already is replaced. A tensor is not kept alive: when its memory is freed, watching ends and a line
    says so.

    Args:
        target: A tensor: a parameter, a view (its elements alone are watched) or a DTensor (its local part) too. Or an
            address. Then you have to make sure that the memory behind it stays there.
        name: Its name in files and reports: at most 64 bytes. Control characters are written as escapes.
        dump_nums: How many looks are written to files; None or a negative number: all of them. Changes are recorded
            beyond that.
        length: Bytes from the address on.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ConfigurationError: If it is not accepted: a tensor without memory of its own, an address that cannot be read, a
            name that is too long. It is a ValueError.
    """
    checked_name = _checked_name(name)
    dump_count = _checked_count(dump_nums)
    memory = _memory_of(target) if length is None else _memory_at(target, length)
    if session.leaves_this_rank_out():
        return
    session.observe_operators_for_watching()
    device = _native.watch_device_at(memory.address) if memory.device == DEVICE_NONE else memory.device
    if device >= 0:
        WATCHED_DEVICES.add(device)
        _finish(device)
    _warn_of_what_is_not_seen(checked_name, device)
    number = _native.watch_add(*memory, checked_name, dump_count)
    if number == 0:
        message = "memory that cannot be read"
        shown = f"{memory.address:#x}"
        raise ConfigurationError(message, option="watch", value=shown, accepted="memory that the program has in use")
    if memory.is_trained:
        await_optimizer(target, number)
    if memory.is_tensor and not _native.watch_in_known_block(memory.address):
        # Nothing that is followed holds it, such as a NumPy array: what keeps it alive tells of its end.
        weakref.finalize(_local(target).untyped_storage(), _native.watch_memory_ends, number).atexit = False


def remove(target: Any, *, length: int | None = None) -> None:
    """End watching a tensor, or the memory at an address. Says so on stderr if it is not watched.

    Args:
        target: The target that was given to `watch`, or its address.
        length: Bytes from the address on. If it is left out, everything that is watched at the address.

    Raises:
        TypeError: If the target is neither, or the length no int.
    """
    if length is None and isinstance(target, int) and not isinstance(target, bool):
        address, byte_count = target, 0
    else:
        memory = _memory_of(target) if length is None else _memory_at(target, length)
        address, byte_count = memory.address, 0 if length is None else length
    if not session.leaves_this_rank_out() and not _native.watch_remove(address, byte_count):
        what = f"{byte_count} bytes at {address:#x}" if byte_count else f"the memory at {address:#x}"
        _native.warn(f"watcher.remove: {what} is not watched; nothing happens")


def _warn_of_what_is_not_seen(name: str, device: int) -> None:
    """Say once that memory is watched in vain."""
    from msmemscope.configuration import Level

    reason = session.why_not_collecting()
    if reason is None and device == DEVICE_CPU and Level.OP not in session.config.level:
        reason = "--level=kernel observes no operators of the cpu, add op to it"
    if reason is not None and reason not in _reported:
        _reported.add(reason)
        _native.warn(f"watcher.watch: changes of {name!r} are not seen: {reason}")


def _finish(device: int) -> None:
    """Let a device finish its work: writes that are still waiting were asked for before the memory is watched."""
    kind = device_name(device).partition(":")[0]
    module = getattr(sys.modules.get("torch"), kind, None)
    if module is None or not module.is_initialized() or not _native.devices_can_be_read():
        return  # its memory is used without torch, or a graph is captured
    if kind == "npu":
        warn_of_concurrent_launches()
    for index in range(module.device_count()):
        if device_of(kind, index) == device:
            module.synchronize(index)


def _memory_of(target: Any) -> _Memory:
    torch = sys.modules.get("torch")
    if isinstance(target, int) and not isinstance(target, bool):
        message = "an address needs length=, the number of bytes to watch"
        raise TypeError(message)
    if torch is None or not isinstance(target, torch.Tensor):
        message = f"cannot watch {type(target).__name__}; accepted: {_ACCEPTED_TARGET}"
        raise TypeError(message)
    tensor = _local(target)
    kind = type(target).__name__
    if tensor.device.type not in {"cpu", "npu", "cuda"}:
        message = f"cannot watch memory of a device of type {tensor.device.type}"
        raise ConfigurationError(message, option="watch", value=kind, accepted=_ACCEPTED_TARGET)
    if tensor.layout is not torch.strided or tensor.is_nested:
        message = "not one plain piece of memory (sparse or nested)"
        hint = "watch its parts, such as tensor.values()"
        raise ConfigurationError(message, option="watch", value=kind, accepted=_ACCEPTED_TARGET, hint=hint)
    if tensor.numel() == 0:
        message = "has no elements"
        raise ConfigurationError(message, option="watch", value=f"{kind} of shape {tuple(tensor.shape)}")
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # fake and functional tensors
        address = 0
    if address == 0:
        message = "has no memory of its own"
        hint = "watch the tensors that it is made of"
        raise ConfigurationError(message, option="watch", value=kind, accepted=_ACCEPTED_TARGET, hint=hint)
    return _Memory(
        True,
        target.requires_grad and target.is_leaf,
        address,
        tensor.itemsize,
        list(tensor.shape),
        list(tensor.stride()),
        _device_number(tensor.device),
    )


def _local(tensor: Any) -> Any:
    """The part of a DTensor that this process has; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def _device_number(device: Any) -> int:
    if device.type == "cpu":
        return DEVICE_CPU
    return current_device() if device.index is None else device_of(device.type, device.index)


def _memory_at(address: Any, length: Any) -> _Memory:
    for name, number in (("address", address), ("length", length)):
        if not isinstance(number, int) or isinstance(number, bool):
            hint = "; with length= the first argument is an address" if name == "address" else ""
            message = f"the {name} must be int, not {type(number).__name__}{hint}"
            raise TypeError(message)
        if number <= 0 or number >= _LARGEST_ADDRESS:
            message = f"not {'an address' if name == 'address' else 'a length'}"
            raise ConfigurationError(message, option=name, value=str(number), accepted="an integer > 0")
    return _Memory(False, False, address, 1, [length], [1], DEVICE_NONE)


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        message = f"the name must be str, not {type(name).__name__}"
        raise TypeError(message)
    accepted = f"text of at most {LONGEST_NAME_BYTES} bytes"
    shown = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), name)
    data = shown.encode("utf-8", "backslashreplace")
    if not name or len(data) > LONGEST_NAME_BYTES:
        message = f"too long with {len(data)} bytes" if name else "empty"
        raise ConfigurationError(message, option="name", value=name[:40], accepted=accepted)
    return data.decode()


def _checked_count(dump_nums: object) -> int:
    if dump_nums is None:
        return _UNLIMITED
    if not isinstance(dump_nums, int) or isinstance(dump_nums, bool):
        message = f"dump_nums must be int, not {type(dump_nums).__name__}"
        raise TypeError(message)
    if abs(dump_nums) >= _LARGEST_ADDRESS:
        return _UNLIMITED
    return max(dump_nums, _UNLIMITED)


_native.hide_code((watch.__code__, remove.__code__))
