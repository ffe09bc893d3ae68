"""The lines and cells of the screen, without a screen: the texts of a `ProcessNow` at a width."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from msmemscope.live.snapshot_text import growth_text, host_text, progress_text, remarks
from msmemscope.reports.plain_text import cut_end, printable
from msmemscope.reports.report_text import cut_label
from msmemscope.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msmemscope.live.followed_capture import FollowedCapture
    from msmemscope.live.snapshot import PoolNow, ProcessNow, SiteInUse

_HISTORY_ROWS: Final = 3
_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_POOL_ROWS: Final = 5
_NUMBER: Final = 11
_NAME: Final = 21
_WIDE: Final = 100
"""Columns from which on there is room for more than lines need."""
_OPERATOR: Final = 14
_WIDE_OPERATOR: Final = 28
_SHORTEST_LINE: Final = 20
_CELL_PADDING: Final = 2
"""On both sides of a cell of a table together."""

KEYS: Final = (
    ("q", "end; the program goes on, it is not touched"),
    ("p", "hold the screen; reading goes on, nothing is missed"),
    ("s", "order call sites by bytes, blocks, largest block, line"),
    ("d", "the next pool or device"),
    ("c", "choose another process, where there are several"),
    ("enter", "the call stack of a call site; up and down choose one"),
    ("?", "this text; escape closes it"),
)
"""Keys and what they do."""


@dataclasses.dataclass(frozen=True)
class Sort:
    """An order of call sites."""

    word: str
    key: Callable[[SiteInUse], Any]


SORTS: Final = (
    Sort("bytes", lambda site: (-site.size_bytes, site.site)),
    Sort("blocks", lambda site: (-site.block_count, site.site)),
    Sort("largest", lambda site: (-site.largest_bytes, site.site)),
    Sort("line", lambda site: site.site),
)


def capture_line(capture: FollowedCapture) -> str:
    """Return the line by which a process is chosen."""
    life = "running" if capture.is_alive else "ended"
    return printable(f"process {capture.process_id:<8} {life:<8} {capture.directory.name}")


@dataclasses.dataclass(frozen=True)
class ScreenText:
    """Texts for one moment.

    Args:
        found: The values to show; None before anything was read.
        width: Columns of the screen.
        pool_name: Of the pool that was chosen; the first one if there is none of this name.
    """

    found: ProcessNow | None
    width: int
    pool_name: str

    @property
    def pool(self) -> PoolNow | None:
        """The pool that is shown."""
        pools = self.found.pools if self.found else ()
        return next((pool for pool in pools if pool.name == self.pool_name), pools[0] if pools else None)

    def heading(self) -> Text:
        """Return the first line: which process, and whether it runs."""
        if self.found is None:
            return Text("Reading ...")
        state = f" (process {self.found.process_id}) {self.found.life.value}"
        return Text(f"{cut_end(self.found.program, max(self.width - len(state), _SHORTEST_LINE))}{state}")

    def progress(self) -> Text:
        """Return the line with events and steps."""
        return Text(cut_end(progress_text(self.found), self.width) if self.found else "")

    def host(self) -> Text:
        """Return the line with the resident memory of the process; empty where it is not known."""
        known = self.found.host if self.found is not None else None
        return Text("" if known is None else cut_end(host_text(known), self.width))

    def remarks(self, unreadable: str) -> Text:
        """Return the notes that a reader must know beside the figures, a line each.

        Args:
            unreadable: Why the capture cannot be read any more; empty if it can.
        """
        lines = [unreadable] if unreadable else []
        if self.found is not None:
            lines.extend(remarks(self.found))
        return Text("\n".join(map(printable, lines)), "bold" if unreadable else "")

    def pools(self) -> Text:
        """Return a line per pool, that of the chosen one marked."""
        if self.found is None or self.pool is None:
            return Text("no memory was allocated yet" if self.found else "")
        headings = ("in use", "reserved", "peak", "per step", "blocks")
        lines = [f"  {'':<{_NAME}}{''.join(f'{heading:>{_NUMBER}}' for heading in headings)}"]
        chosen = self.found.pools.index(self.pool)
        first = max(min(chosen - _POOL_ROWS // 2, len(self.found.pools) - _POOL_ROWS), 0)
        for pool in self.found.pools[first : first + _POOL_ROWS]:
            growth, reserved = pool.growth_per_step_bytes, pool.reserved_bytes
            cells = (
                format_bytes(pool.in_use_bytes),
                "-" if reserved is None else format_bytes(reserved),
                format_bytes(pool.peak_bytes),
                "-" if growth is None else growth_text(growth),
                format_count(pool.block_count),
            )
            mark = ">" if pool is self.pool else " "
            lines.append(
                f"{mark} {cut_end(pool.name, _NAME):<{_NAME}}{''.join(f'{cell:>{_NUMBER}}' for cell in cells)}"
            )
        text = Text("\n".join(_cut(line, self.width) for line in lines))
        place = sum(len(line[: self.width]) + 1 for line in lines[: chosen - first + 1])
        text.stylize("bold", place, place + len(lines[chosen - first + 1]))
        return text

    def history(self) -> Text:
        """Return memory over time as bars; each column has the most of its time."""
        pool = self.pool
        if pool is None or not pool.history_bytes:
            return Text("")
        until = format_duration(len(pool.history_bytes) * pool.history_stretch_ns)
        room = max(self.width - len(until) - 1, 1)
        rows = bars(pool.history_bytes, width=room, rows=_HISTORY_ROWS)
        rows[-1] = f"{rows[-1]} {until}"
        return Text("\n".join(rows))

    def owners(self) -> Text:
        """Return whose memory is in use, in one line."""
        pool = self.pool
        if pool is None:
            return Text("")
        texts = [f"{printable(owner.owner)} {format_bytes(owner.size_bytes)}" for owner in pool.owners]
        return Text(cut_end(f"owners: {', '.join(texts)}", self.width))

    def sites(self, sort: Sort) -> list[SiteInUse]:
        """Return the call sites of the chosen pool in an order."""
        return sorted(self.pool.sites, key=sort.key) if self.pool else []

    def site_headings(self) -> list[str]:
        """Return the headings of the table of call sites."""
        largest = ["   largest"] if self._is_wide else []
        return ["     bytes", "  blocks", *largest, "operator", "line"]

    def site_cells(self, site: SiteInUse) -> list[Text]:
        """Return a row of the table of call sites."""
        operator = cut_end(site.operator.removeprefix("torch._ops."), _WIDE_OPERATOR if self._is_wide else _OPERATOR)
        cells = [f"{format_bytes(site.size_bytes):>10}", f"{format_count(site.block_count):>8}"]
        if self._is_wide:
            cells.append(f"{format_bytes(site.largest_bytes):>10}")
        cells.append(f"{operator:<{len('operator')}}")
        room = self.width - sum(map(len, cells)) - (len(cells) + 1) * _CELL_PADDING
        return list(map(Text, [*cells, cut_label(site.site, max(room, _SHORTEST_LINE))]))

    @property
    def _is_wide(self) -> bool:
        return self.width >= _WIDE

    def keys(self, *, sort: str, is_paused: bool, has_several: bool) -> Text:
        """Return the last line: the keys."""
        choice = "  c process" if has_several else ""
        pause = "p go on" if is_paused else "p pause"
        line = f"q quit  {pause}  s sort: {sort}  d next pool{choice}  enter stack  ? help"
        return Text(_cut(f"{'PAUSED  ' if is_paused else ''}{line}", self.width), "reverse" if is_paused else "")

    @staticmethod
    def stack(site: SiteInUse) -> tuple[str, list[str]]:
        """Return the heading and the lines about a call site."""
        blocks = format_count(site.block_count)
        heading = f"{format_bytes(site.size_bytes)} in {blocks} blocks, the largest {format_bytes(site.largest_bytes)}"
        frames = [printable(frame) for frame in site.stack] or ["no call stack was recorded (--call-stack)"]
        operator = [f"operator: {printable(site.operator)}"] if site.operator else []
        return heading, [*operator, "of the largest block, innermost first:", *frames]


def _cut(line: str, width: int) -> str:
    """Shorten a line whose blanks stay as they are."""
    return printable(line)[:width]


def bars(values: Sequence[int], *, width: int, rows: int) -> list[str]:
    """Draw values as bars over several rows.

    Args:
        values: Amounts from 0 on.
        width: Columns at most; where there are more values, a column is the largest of some, so that no peak is lost.
        rows: Lines.

    Returns:
        The lines, the uppermost first.
    """
    count = min(width, len(values))
    most = max(values)
    steps = rows * (len(_HEIGHTS) - 1)
    heights = []
    for place in range(count):
        value = max(values[place * len(values) // count : (place + 1) * len(values) // count])
        # An amount above zero is always seen.
        heights.append(-(-value * steps // most) if most else 0)
    return [
        "".join(_HEIGHTS[min(max(height - row * (len(_HEIGHTS) - 1), 0), len(_HEIGHTS) - 1)] for height in heights)
        for row in reversed(range(rows))
    ]
