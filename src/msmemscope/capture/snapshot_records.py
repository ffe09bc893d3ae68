"""Writing snapshots: the figures of devices as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.capture.device_figures import accelerators_of_process, host_figures
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from msmemscope.capture.device_figures import Accelerators, Figures
    from msmemscope.configuration import Config

_ORDER = {
    "reserved": AttributeKey.RESERVED_BYTES,
    "max_reserved": AttributeKey.MAX_RESERVED_BYTES,
    "allocated": AttributeKey.ALLOCATED_BYTES,
    "max_allocated": AttributeKey.MAX_ALLOCATED_BYTES,
    "total": AttributeKey.TOTAL_BYTES,
    "free": AttributeKey.FREE_BYTES,
}
_MILLION = 1_000_000
_reported: set[str] = set()


def record_snapshot(config: Config, name: str, wanted: Sequence[int] | None = None) -> None:
    """Write a row for each device.

    Args:
        config: Which devices are observed.
        name: Of the rows.
        wanted: The accelerators by the program's numbers. None stands for all that are observed.

    Raises:
        OSError: If /proc cannot be read.
    """
    accelerators = accelerators_of_process()
    devices, with_host = _chosen(wanted, accelerators, config)
    if accelerators is not None:
        for device in devices:
            _record_device(accelerators, device, name)
    if with_host:
        record_figures(DEVICE_CPU, host_figures(with_tensors="cpu" in config.devices), name)


def _record_device(accelerators: Accelerators, device: int, name: str) -> None:
    number = accelerators.driver_number(device)
    if number < 0 or device >= accelerators.count():
        warn_once(f"no snapshot of device {device}: there is no such {accelerators.kind}")
        return
    try:
        figures = accelerators.figures(device)
    except RuntimeError as error:
        warn_once(f"no snapshot of device {device}: {error}")
        return
    record_figures(number, figures, name)


def _chosen(
    wanted: Sequence[int] | None, accelerators: Accelerators | None, config: Config
) -> tuple[Iterable[int], bool]:
    """The accelerators to take a snapshot of, by the program's numbers, and whether the host is one of the devices."""
    if accelerators is None or accelerators.count() == 0:
        if wanted is not None:
            numbers = ", ".join(map(str, wanted))
            warn_once(f"snapshot of device {numbers}: the program has no accelerator; the cpu is shown instead")
        return (), True
    if wanted is not None:
        return wanted, False
    observed = [
        device
        for device in range(accelerators.count())
        if is_observed(config, accelerators, accelerators.driver_number(device))
    ]
    return observed, "cpu" in config.devices or not observed


def record_figures(number: int, figures: Figures, name: str, *, with_stacks: bool = False) -> None:
    """Write one row.

    Args:
        number: The device, as events have it.
        figures: In bytes.
        name: Of the row.
        with_stacks: Whether with call stacks, whatever the settings say.
    """
    _native.record_event(
        EventKind.SNAPSHOT, number, attributes=attributes_of(figures), name=name, with_stacks=with_stacks
    )


def attributes_of(figures: Figures) -> dict[int, int]:
    """Return figures as the attributes of a snapshot: bytes, then rates, in a fixed order."""
    found: dict[int, int] = {key: figures[name] for name, key in _ORDER.items() if name in figures}
    if "total" in figures and "free" in figures:
        found[AttributeKey.DEVICE_RATE] = _rate(figures["total"] - figures["free"], figures["total"])
    if "reserved" in figures and "allocated" in figures:
        found[AttributeKey.RESERVED_RATE] = _rate(figures["allocated"], figures["reserved"])
    return found


def _rate(part: int, whole: int) -> int:
    """Return millionths of a percent, rounded to the nearest, to an even number where two are as near; 0 of nothing."""
    if whole == 0:
        return 0
    millionths, rest = divmod(max(part, 0) * 100 * _MILLION, whole)
    return millionths + (2 * rest > whole or (2 * rest == whole and millionths % 2 == 1))


def is_observed(config: Config, accelerators: Accelerators, device: int) -> bool:
    """Whether `--device` names an accelerator, or its kind; kinds that no events come of are always shown."""
    return accelerators.kind != "npu" or config.observes(device)


def warn_once(text: str) -> None:
    """Print a line, the first time."""
    if text not in _reported:
        _reported.add(text)
        _native.warn(text)


_native.hide_code((record_figures.__code__,))
