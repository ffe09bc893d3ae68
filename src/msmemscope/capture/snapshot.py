"""Snapshots of memory: how much allocators and devices hold at one moment of the program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, final

from msmemscope.capture.decorating import run_within
from msmemscope.capture.device_figures import accelerators_of_process
from msmemscope.capture.session import session
from msmemscope.capture.snapshot_records import record_snapshot, warn_once
from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import DEVICES_PER_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from msmemscope.capture.device_figures import Accelerators

    DeviceMask = int | list[int] | tuple[int, ...]

_Function = TypeVar("_Function", bound="Callable[..., Any]")

DEFAULT_NAME = "Memory Snapshot"
LONGEST_NAME = 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ACCEPTED_MASK = f"None, a device number from 0 to {DEVICES_PER_KIND - 1}, or a list or tuple of those"


def take_snapshot(device_mask: DeviceMask | None = None, name: str = DEFAULT_NAME) -> None:
    """Write how much memory allocators and devices hold now: one row per device, Event `SNAPSHOT`.

    Works with and without `start()`. Most attributes of a row are bytes:

    - `reserved` and `max_reserved` of the framework's allocator;
    - `allocated` and `max_allocated` of tensors in it;
    - `total` and `free` of the device.

    Two are percentages. `device_rate` is the part of the device that is in use by anybody. `reserved_rate` is the part
    of the reserved memory that is allocated. Attributes that are not known are left out. On the cpu, `reserved` is what
    the process has in memory, `allocated` its CPU tensors, and `total` and `free` are the machine's.

    A device that the program does not use is not touched. Its attributes come from the management interface.

    Args:
        device_mask: The devices by the program's numbers: `0`, `[0, 1]`, `(0, 1)`. None stands for all devices of
            `--device` (`config(device=...)`). In a program without accelerator it stands for the cpu. If `--device`
            names the cpu, the cpu is there beside the other devices too.
        name: Column `Name` of the rows, at most 1024 characters. Control characters are written as escapes.

    Raises:
        ConfigurationError: If an argument is not accepted; it is a ValueError.

    Examples:
        >>> import msmemscope
        >>> msmemscope.take_snapshot(device_mask=0, name="after loading")
    """
    wanted = _checked_mask(device_mask)
    text = _checked_name(name)
    accelerators = accelerators_of_process()
    if wanted is not None and accelerators is not None:
        _check_existence(wanted, accelerators)
    _write(wanted, text)


@final
class TakeSnapshot:
    """Takes a snapshot where a piece of code begins and one where it ends, by an exception too.

    A context manager and a decorator, for functions, coroutine functions and generators::

        with msmemscope.TakeSnapshot(name="load"):
            model = load()

        @msmemscope.TakeSnapshot(device_mask=[0, 1], name="train")
        def train(): ...

    The rows are named `<name> Start` and `<name> End`. A device that is not there when the code runs is told once on
    stderr and left out.

    Args:
        device_mask: As for `take_snapshot`.
        name: As for `take_snapshot`.

    Raises:
        ConfigurationError: If an argument is not accepted; it is a ValueError.
    """

    def __init__(self, device_mask: DeviceMask | None = None, name: str = DEFAULT_NAME) -> None:
        self._wanted = _checked_mask(device_mask)
        self._name = _checked_name(name)

    def __repr__(self) -> str:
        return f"TakeSnapshot(device_mask={self._wanted!r}, name={self._name!r})"

    def __enter__(self) -> TakeSnapshot:
        """Take the first snapshot."""
        _write(self._wanted, f"{self._name} Start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Take the second one; exceptions go their way."""
        _write(self._wanted, f"{self._name} End")

    def __call__(self, function: _Function) -> _Function:
        """Take both around each call of a function."""
        return run_within(lambda: self, function)


def _write(wanted: Sequence[int] | None, name: str) -> None:
    """Write the rows; the program goes on whatever happens."""
    try:
        if not session.leaves_this_rank_out():
            record_snapshot(session.config, name, wanted)
    except Exception as error:  # noqa: BLE001 - a snapshot is not worth the program
        warn_once(f"no snapshot {name!r}: {type(error).__name__}: {error}")


def _checked_mask(mask: object) -> tuple[int, ...] | None:
    if mask is None:
        return None
    numbers = tuple(mask) if isinstance(mask, (list, tuple)) else (mask,)
    for number in numbers:
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not 0 <= number < DEVICES_PER_KIND:
            message = "not a device number" if is_number else f"cannot be or hold {type(number).__name__}"
            raise ConfigurationError(message, option="device_mask", value=repr(mask), accepted=_ACCEPTED_MASK)
    if not numbers:
        message = "names no device"
        raise ConfigurationError(
            message, option="device_mask", value=repr(mask), accepted=_ACCEPTED_MASK, hint="None stands for all devices"
        )
    return tuple(dict.fromkeys(numbers))


def _check_existence(wanted: Iterable[int], accelerators: Accelerators) -> None:
    try:
        count = accelerators.count()
    except RuntimeError:
        return  # torch cannot tell; what is written will show it
    for number in wanted:
        if count and number >= count:
            message = "no such device"
            accepted = f"0 to {count - 1}" if count > 1 else "0"
            raise ConfigurationError(message, option="device_mask", value=str(number), accepted=accepted)


def _checked_name(name: object) -> str:
    accepted = f"text of at most {LONGEST_NAME} characters"
    if not isinstance(name, str):
        message = f"cannot be {type(name).__name__}"
        raise ConfigurationError(message, option="name", value=repr(name), accepted=accepted)
    if not name or len(name) > LONGEST_NAME:
        message = "too long" if name else "empty"
        raise ConfigurationError(message, option="name", value=name[:40], accepted=accepted)
    shown = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), name)
    return shown.encode("utf-8", "backslashreplace").decode()
