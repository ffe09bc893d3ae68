"""The questions of the page, each by the name in its address; ui/PROTOCOL.md has the answers."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope.errors import UsageError
from msmemscope.model.owners import is_known_owner
from msmemscope.reports.html.words import LANGUAGES
from msmemscope.view.downloads import FILE_FORMATS, Download, Rows, download
from msmemscope.view.queries.blocks import BY_AGE, BY_SIZE, LAYOUTS, MOST_RECTANGLES, Map, block_map
from msmemscope.view.queries.calls import calls_of_window, marks_of_window
from msmemscope.view.queries.findings import findings_of, source_lines, verdicts_of
from msmemscope.view.queries.memory import NO_GROUPING, memory_over_time
from msmemscope.view.queries.one_block import at_moment, block_detail
from msmemscope.view.queries.segments import segments_at
from msmemscope.view.queries.tables import (
    MOST_ROWS,
    TABLES,
    Page,
    matching_rows,
    rows_as_table,
    table_columns,
    table_page,
)
from msmemscope.view.queries.trees import (
    MEASURES,
    MOST_NODES,
    TREES,
    difference_of_moments,
    measured_blocks,
    weighed_tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from msmemscope.view.parameters import Parameters
    from msmemscope.view.queries.frame import Frame
    from msmemscope.view.queries.process_view import ProcessView

_MOST_COLUMNS: Final = 4000
_MOST_GROUPS: Final = 40
_MOST_MARKS: Final = 2000
_MOST_CALLS: Final = 100_000
_MOST_DIFFERENCES: Final = 5000
DOWNLOADS: Final = ("memory", "blocks", "events", "tree", "calls", "segments", "difference")


class Answers:
    """Answers what the page asks.

    Args:
        processes: The processes to show.
    """

    def __init__(self, processes: Sequence[ProcessView]) -> None:
        """Nothing is read yet."""
        self._processes = processes
        self.by_name: Mapping[str, Callable[[Parameters], Frame | Any]] = {
            "session": lambda _: self._session,
            "memory": self._memory,
            "marks": self._marks,
            "blocks": self._blocks,
            "block": lambda given: block_detail(self._process(given), given.number("block", -1, least=-1)),
            "at": self._at,
            "tree": self._tree,
            "difference": lambda given: self._difference(
                given, given.number("most", 500, least=1, most=_MOST_DIFFERENCES)
            ),
            "segments": self._segments,
            "calls": lambda given: self._calls(given, given.number("most", 20_000, least=1, most=_MOST_CALLS)),
            "table": lambda given: table_page(self._process(given), self._page(given)),
            "findings": lambda given: findings_of(self._process(given), _language(given)),
            "verdicts": self._verdicts,
            "source": lambda given: source_lines(self._process(given), given.text("site")),
        }

    def download(self, given: Parameters) -> Download:
        """Return a file with a whole answer.

        Raises:
            UsageError: There is no such answer, or no such format.
        """
        what, file_format = given.word("what", DOWNLOADS, ""), given.word("format", tuple(FILE_FORMATS), "parquet")
        if what in TABLES:
            process = self._process(given)
            order = matching_rows(process, self._page(given, table=what))
            rows = Rows(len(order), lambda begin, end: rows_as_table(process, what, order[begin:end]))
        elif what == "calls":
            process = self._process(given)
            rows = Rows.of(self._calls(given, process.calls.begins.size + 1).table)
        elif what == "difference":
            rows = Rows.of(self._difference(given, sys.maxsize).table)
        else:
            rows = Rows.of(self.by_name[what](given).table)
        return download(what, file_format, rows)

    @functools.cached_property
    def _session(self) -> dict[str, Any]:
        from msmemscope import __version__

        return {
            "version": __version__,
            "processes": [_described(process) for process in self._processes],
            "tables": {name: table_columns(self._processes[0], name) for name in TABLES},
        }

    def _verdicts(self, given: Parameters) -> list[dict[str, Any]]:
        language = _language(given)
        return [verdict for process in self._processes for verdict in verdicts_of(process, language)]

    def _process(self, given: Parameters, name: str = "process") -> ProcessView:
        return self._processes[given.number(name, 0, most=len(self._processes) - 1)]

    def _memory(self, given: Parameters) -> Frame:
        process = self._process(given)
        columns = given.number("columns", 1000, least=1, most=_MOST_COLUMNS)
        grouping = given.text("by", NO_GROUPING)
        if grouping != NO_GROUPING:
            process.grouping(grouping)
        groups = given.number("groups", 8, most=_MOST_GROUPS)
        return memory_over_time(process.pool(given.number("pool", 0)), given.window(process), columns, grouping, groups)

    def _marks(self, given: Parameters) -> dict[str, Any]:
        process = self._process(given)
        most = given.number("most", 300, least=1, most=_MOST_MARKS)
        return marks_of_window(process.pool(given.number("pool", 0)), given.window(process), most)

    def _blocks(self, given: Parameters) -> Frame:
        process = self._process(given)
        asked = Map(
            layout=given.word("layout", LAYOUTS, LAYOUTS[0]),
            low=given.number_or_none("low"),
            high=given.number_or_none("high"),
            most=given.number("most", 20_000, least=1, most=MOST_RECTANGLES),
            colour=given.word("colour", (*process.facts["groupings"], BY_AGE, BY_SIZE), "owner"),
        )
        return block_map(process.pool(given.number("pool", 0)), given.window(process), asked)

    def _at(self, given: Parameters) -> dict[str, Any]:
        process = self._process(given)
        axis = process.axis_or_default(given.text("axis") or None)
        row = given.row(process)
        if row is None:
            row = process.row_at(given.number("position", 0), axis)
        return at_moment(process.pool(given.number("pool", 0)), row, axis)

    def _tree(self, given: Parameters) -> Frame:
        process = self._process(given)
        pool = process.pool(given.number("pool", 0))
        by, frames = given.word("by", ("stack", "owner"), "stack"), given.word("frames", ("program", "all"), "program")
        measured = measured_blocks(
            pool, given.word("measure", MEASURES, "peak"), given.window(process), given.row(process)
        )
        return weighed_tree(pool, measured, TREES[by, frames], given.number("nodes", 3000, least=1, most=MOST_NODES))

    def _difference(self, given: Parameters, most: int) -> Frame:
        process, other = self._process(given), self._process(given, "other_process")
        rows = []
        for one, name in ((process, "row"), (other, "other_row")):
            row = given.row(one, name)
            if row is None:
                message = "is missing"
                raise UsageError(message, option=name, value="", accepted=f"-1 to {one.row_count - 1}")
            rows.append(row)
        grouping = other.grouping(process.grouping(given.text("by", "owner")))
        one_pool, other_pool = process.pool(given.number("pool", 0)), other.pool(given.number("other_pool", 0))
        return difference_of_moments((one_pool, rows[0]), (other_pool, rows[1]), grouping, most)

    def _segments(self, given: Parameters) -> Frame:
        process = self._process(given)
        pool = process.pool(given.number("pool", 0))
        row = given.row(process)
        return segments_at(pool, pool.facts["peak_row"] if row is None else row)

    def _calls(self, given: Parameters, most: int) -> Frame:
        process = self._process(given)
        return calls_of_window(process, given.window(process), most)

    def _page(self, given: Parameters, table: str | None = None) -> Page:
        process = self._process(given)
        has_window = bool(given.text("from") or given.text("to"))
        return Page(
            table=given.word("table", tuple(TABLES), "blocks") if table is None else table,
            offset=given.number("offset", 0),
            limit=given.number("limit", 100, least=1, most=MOST_ROWS),
            sort=given.text("sort") or None,
            is_descending=given.flag("descending"),
            filter_json=given.text("filter"),
            search=given.text("search"),
            pool=given.number_or_none("pool", least=0),
            window=given.window(process) if has_window else None,
        )


def _language(given: Parameters) -> str:
    return given.word("language", tuple(LANGUAGES), "en")


def _described(process: ProcessView) -> dict[str, Any]:
    facts = process.facts
    return {
        "process": process.number,
        "name": process.name,
        "source": facts["source"],
        "form": facts["form"],
        "program": facts["program"],
        "process_id": facts["process_id"],
        "rank": facts["rank"],
        "begin_ns": str(facts["begin_ns"]),
        "axis": {"has_times": facts["has_times"], "length": {axis: process.length(axis) for axis in process.axes}},
        "counts": {name: facts[name] for name in ("events", "blocks", "steps")},
        "pools": [
            {
                "pool": pool.number,
                "peak": process.moment(pool.facts["peak_row"]),
                "base_address": hex(pool.facts["base_address"]),
                **{
                    name: pool.facts[name]
                    for name in (
                        "name", "device", "word", "peak_bytes", "block_count", "has_reserved", "has_segments", "address_bytes",
                    )
                },
            }
            for pool in process.pools
        ],
        "groupings": facts["groupings"],
        "knows_owners": any(map(is_known_owner, process.labels("owner"))),
        "has_calls": bool(facts["tracks"]),
        "problems": facts["problems"],
        "notes": process.document["processes"][0]["limits"],
    }  # fmt: skip
