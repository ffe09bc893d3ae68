"""Which process of one run is compared with which of the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import UsageError
from msmemscope.model.devices import device_name, is_accelerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording import Recording


def paired_processes(
    bases: Sequence[Recording], others: Sequence[Recording], paths: Sequence[Path], steps: Sequence[int | None]
) -> list[tuple[Recording, Recording]]:
    """Bring together the processes of both sides that used the same devices.

    Args:
        bases: The processes that are compared against.
        others: The processes that may be different.
        paths: The places of both sides, for messages.
        steps: The steps of both sides, for messages.

    Raises:
        UsageError: They cannot be told apart like that.
    """
    if len(bases) == len(others) == 1:
        return [(bases[0], others[0])]
    # Helpers of a program allocate nothing.
    found = [[one for one in recordings if one.blocks.height] or list(recordings) for recordings in (bases, others)]
    if len(found[0]) == len(found[1]) == 1:
        return [(found[0][0], found[1][0])]
    by_devices = [{_devices(one): one for one in recordings} for recordings in found]
    shared = [devices for devices in by_devices[0] if devices in by_devices[1]]
    is_unique = all(len(unique) == len(recordings) for unique, recordings in zip(by_devices, found, strict=True))
    is_complete = len(shared) == max(map(len, found)) or (len(shared) == min(map(len, found)) == 1)
    if is_unique and is_complete:
        return [(by_devices[0][devices], by_devices[1][devices]) for devices in sorted(shared)]
    side = 0 if len(found[0]) >= len(found[1]) else 1
    recordings = max(found, key=len)
    message = "holds several processes, and their devices do not say which belong together"
    accepted = ", ".join(f"{one.process_id} ({_device_text(one)})" for one in recordings)
    raise UsageError(
        message,
        option=("BASE", "COMPARE")[side],
        value=str(paths[side]),
        accepted=f"one process; there are {accepted}",
        hint="name the folder of one process on each side: msmemscope compare "
        f"{_folder_of(found[0][0], paths[0], steps[0])} {_folder_of(found[1][0], paths[1], steps[1])}",
    )


def _devices(recording: Recording) -> tuple[int, ...]:
    """The accelerators that a process used; the cpu if it used none."""
    devices = sorted(recording.blocks["device"].unique().to_list())
    return tuple(device for device in devices if is_accelerator(device)) or tuple(devices)


def _device_text(recording: Recording) -> str:
    return ", ".join(device_name(device) for device in _devices(recording)) or "no device"


def _folder_of(recording: Recording, path: Path, step: int | None) -> str:
    """The path that names one process: its capture folder, as far as it can be seen."""
    source = Path(recording.source)
    folders = [folder for folder in (source, *source.parents) if folder.name.startswith("msmemscope_")]
    shown_step = f":step={step}" if step is not None else ""
    return f"{folders[0] if folders else path}{shown_step}"
