"""How the process of a capture ended, as its launcher saw it: a file beside its log, since the process could not write it.

The kernel ends a process that needs more memory than there is, or than its control group may have. A count of the group
is the only trace of that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.model.capture_files import END_NOTE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.formats.event_log.log_folder import StoredLog

_OUT_OF_MEMORY: Final = re.compile(r"^out of memory, limit ([0-9]{1,19})$", re.MULTILINE)
_STATUS: Final = re.compile(r"^status ([0-9]{1,3})$", re.MULTILINE)
_MOMENT: Final = re.compile(r"^at ([0-9]{1,19})$", re.MULTILINE)
_HIERARCHIES: Final = Path("/sys/fs/cgroup")
_GROUPS: Final = Path("/proc/self/cgroup")
_NO_LIMIT: Final = 1 << 60
"""Bytes from which on a limit is none: the first version of groups writes a large number for that."""


@dataclasses.dataclass(frozen=True)
class EndedBy:
    """The cause of a process's end."""

    signal_name: str = ""
    """`SIGKILL`; empty if it is not known."""
    limit_bytes: int | None = None
    """The limit of its control group, 0 without one, where the kernel ended it for lack of memory; None elsewhere."""
    exit_status: int = 0
    """0 if a signal ended it, or nobody noted it."""
    end_ns: int = 0
    """CLOCK_REALTIME; 0 if it is not known."""


@dataclasses.dataclass(frozen=True)
class MemoryGroup:
    """The figures of a control group about memory."""

    limit_bytes: int
    """The least that it or a group around it may have; 0 without a limit."""
    kills: int
    """Processes of it that the kernel ended for lack of memory."""
    room_bytes: int | None = None
    """Left of the limits, if files that are only kept at hand are given back; None without a limit, or if it is not known."""


def memory_group(groups: Path = _GROUPS, hierarchies: Path = _HIERARCHIES) -> MemoryGroup | None:
    """Return the figures of the group of this process; None where the kernel counts no such ends.

    Args:
        groups: The file that names the groups of the process.
        hierarchies: The folder that they are in.
    """
    for line in _text(groups).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in {"", "memory"}:
            continue
        first = controllers == "memory"
        root = hierarchies / controllers
        # In a container the group can be the root of all visible groups, whatever its name outside.
        own = root / path.lstrip("/")
        folder = own if own.is_dir() else root
        kills = re.search(
            r"^oom_kill (\d+)$", _text(folder / ("memory.oom_control" if first else "memory.events")), re.MULTILINE
        )
        if kills is not None:
            limits = dict(_limits(folder, root, "memory.limit_in_bytes" if first else "memory.max"))
            used = {one: _used_bytes(one, is_first=first) for one in limits}
            rooms = [limit - size for one, limit in limits.items() if (size := used[one]) is not None]
            return MemoryGroup(min(limits.values(), default=0), int(kills[1]), min(rooms, default=None))
    return None


def limit_of_kill(signal_number: int, before: MemoryGroup | None, after: MemoryGroup | None) -> int | None:
    """Return the limit of a program's group, 0 without one, if the kernel ended it for lack of memory; None elsewhere.

    Args:
        signal_number: That ended it, 0 for none.
        before: The figures of its group when it began.
        after: The figures of its group when it had ended.
    """
    if signal_number != signal.SIGKILL or before is None or after is None or after.kills <= before.kills:
        return None
    return after.limit_bytes


def note_end(directory: Path, ended_by: EndedBy) -> None:
    """Note beside the log of a capture what ended its process."""
    lines = [ended_by.signal_name or f"status {ended_by.exit_status}"]
    if ended_by.limit_bytes is not None:
        lines.append(f"out of memory, limit {ended_by.limit_bytes}")
    if ended_by.end_ns:
        lines.append(f"at {ended_by.end_ns}")
    # Without it the summary says in general what may have happened.
    with contextlib.suppress(OSError):
        (directory / END_NOTE_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def end_noted(log: StoredLog) -> EndedBy:
    """Return the note about a capture.

    Args:
        log: Its event log.
    """
    text = log.end_note().decode("ascii", "replace")
    name = text.partition("\n")[0]
    is_signal = name in signal.Signals.__members__
    limit, status, moment = (form.search(text) for form in (_OUT_OF_MEMORY, _STATUS, _MOMENT))
    return EndedBy(
        name if is_signal else "",
        int(limit[1]) if limit is not None and is_signal else None,
        int(status[1]) if status is not None and not is_signal else 0,
        int(moment[1]) if moment is not None else 0,
    )


def _used_bytes(folder: Path, *, is_first: bool) -> int | None:
    """The bytes that a group needs: without files on disks that the kernel only keeps at hand."""
    whole = _text(folder / ("memory.usage_in_bytes" if is_first else "memory.current")).strip()
    if not whole.isdecimal():
        return None
    figures = dict(re.findall(r"^(\w+) (\d+)$", _text(folder / "memory.stat"), re.MULTILINE))
    files, shared = ("total_cache", "total_shmem") if is_first else ("file", "shmem")
    return int(whole) - max(int(figures.get(files, 0)) - int(figures.get(shared, 0)), 0)


def _limits(folder: Path, root: Path, name: str) -> Iterator[tuple[Path, int]]:
    """The limits of a group and of those around it, by their folders."""
    for one in (folder, *folder.parents):
        text = _text(one / name).strip()
        if text.isdecimal() and int(text) < _NO_LIMIT:
            yield one, int(text)
        if one == root:
            return


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
