"""Writing the figures of a device as the record of a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.capture.device_figures import Accelerators, Figures
    from msmemscope.configuration import Config

_ORDER = ("reserved", "max_reserved", "allocated", "max_allocated", "total", "free")
_told: set[str] = set()


def record_figures(number: int, figures: Figures, name: str, *, with_stacks: bool = False) -> None:
    """Write one row.

    Args:
        number: The device, as events have it.
        figures: In bytes.
        name: Of the row.
        with_stacks: Whether with call stacks, whatever the settings say.
    """
    _native.record_event(
        EventKind.SNAPSHOT, number, attributes=attributes_text(figures), name=name, with_stacks=with_stacks
    )


def attributes_text(figures: Figures) -> str:
    """Write figures as the attributes of a snapshot: bytes, then percentages with six decimals, in a fixed order."""
    parts = [f"{key}:{figures[key]}" for key in _ORDER if key in figures]
    if "total" in figures and "free" in figures:
        parts.append(f"device_rate:{_percent(figures['total'] - figures['free'], figures['total'])}")
    if "reserved" in figures and "allocated" in figures:
        parts.append(f"reserved_rate:{_percent(figures['allocated'], figures['reserved'])}")
    return ",".join(parts)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole * 100 if whole else 0:.6f}"


def is_observed(config: Config, accelerators: Accelerators, device: int) -> bool:
    """Whether `--device` names an accelerator, or its kind; kinds that no events come of are always shown."""
    name = device_name(device)
    return accelerators.kind != "npu" or name in config.devices or name.partition(":")[0] in config.devices


def tell_once(text: str) -> None:
    """Print a line, the first time."""
    if text not in _told:
        _told.add(text)
        _native.say(text)


_native.hide_code((record_figures.__code__,))
