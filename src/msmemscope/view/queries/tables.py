"""Tables of blocks and of events: filtered, sorted and cut into pages; every row can be reached."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.errors import UsageError
from msmemscope.model.devices import device_name
from msmemscope.model.events import EVENT_TYPE_WORDS, EVENT_WORDS, EventKind
from msmemscope.model.pools import pool_word
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.store import NEVER
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.python_text import all_blocks_text, events_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import ProcessView, Window

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Rows: TypeAlias = "Numbers | slice"

_ALL: Final = slice(None)
_LEAST_DEVICE: Final = -(1 << 15)
"""Smallest number of a device, so that codes of places begin at 0."""

MOST_ROWS: Final = 1000
"""Of a page."""
_KEPT_ORDERS: Final = 6
"""Filtered and sorted tables that are kept, so that the next page costs nothing."""


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table, in the array that it is made of."""

    name: str
    label: str
    kind: str
    """How a page shows it: `bytes`, `count`, `time`, `row`, `hex`, `text`."""
    values: Callable[[ProcessView, Rows], Numbers]
    """The values that some rows are filtered and sorted by; of texts, their codes."""
    labels: Callable[[ProcessView], pl.Series] | None = None
    """The texts by code; None of numbers."""
    unknown: int | None = None
    """Value of a number that is not known."""


def _block(name: str) -> Callable[[ProcessView, Rows], Numbers]:
    return lambda process, rows: process.index.get(f"blocks/{name}")[rows]


def _event(name: str) -> Callable[[ProcessView, Rows], Numbers]:
    return lambda process, rows: process.index.get(f"events/{name}")[rows]


def _numbers(count: Callable[[ProcessView], int]) -> Callable[[ProcessView, Rows], Numbers]:
    return lambda process, rows: np.arange(count(process))[rows] if isinstance(rows, slice) else rows


def _pools(process: ProcessView) -> pl.Series:
    return pl.Series([pool["name"] for pool in process.facts["pools"]], dtype=pl.String)


def _times(name: str) -> Callable[[ProcessView, Rows], Numbers]:
    # A block that is never freed ends with the run; where its end is shown, `unknown` says so.
    def times(process: ProcessView, rows: Rows) -> Numbers:
        moments = process.index.get(f"blocks/{name}")[rows]
        return np.where(moments == NEVER, -1, process.positions(moments, process.axes[0]))

    return times


def _lifetimes(process: ProcessView, rows: Rows) -> Numbers:
    begins, ends = (
        process.positions(process.index.get(f"blocks/{name}")[rows], process.axes[0])
        for name in ("begin_rows", "end_rows")
    )
    return ends - begins


def _kind_labels(_: ProcessView) -> pl.Series:
    words = [""] * 256
    for kind in EventKind:
        word, type_word = EVENT_WORDS.get(kind, kind.name), EVENT_TYPE_WORDS.get(kind)
        words[kind] = f"{word} {type_word}" if type_word and type_word != word else word
    return pl.Series(words)


def _place_codes(process: ProcessView, rows: Rows) -> Numbers:
    places: Numbers = np.searchsorted(_used_places(process), _places(process, rows))
    return places


def _places(process: ProcessView, rows: Rows) -> Numbers:
    """The device and the pool of events as one number each."""
    devices, pools = (process.index.get(f"events/{name}")[rows] for name in ("devices", "pools"))
    return (devices.astype(np.int32) - _LEAST_DEVICE) << 8 | pools


@functools.lru_cache(maxsize=64)
def _used_places(process: ProcessView) -> Numbers:
    """Those that there are: few, but a damaged recording can have any number among them."""
    return np.unique(_places(process, _ALL))


@functools.lru_cache(maxsize=64)
def _event_places(process: ProcessView) -> pl.Series:
    texts = []
    for code in _used_places(process).tolist():
        device, pool = (code >> 8) + _LEAST_DEVICE, code & 0xFF
        texts.append(f"{device_name(device)} {pool_word(pool, device)}" if pool else device_name(device))
    return pl.Series(texts, dtype=pl.String)


def _group(name: str, label: str) -> Column:
    return Column(
        name, label, "text", lambda process, rows: process.codes(name)[rows], lambda process: process.labels(name)
    )


_BLOCK_COLUMNS: Final = (
    Column("block", "block", "row", _numbers(lambda process: int(process.facts["blocks"]))),
    Column("size", "size", "bytes", _block("sizes")),
    Column("begin", "allocated", "time", _times("begin_rows")),
    Column("end", "freed", "time", _times("end_rows"), unknown=-1),
    Column("lifetime", "lifetime", "time", _lifetimes),
    Column("pool", "pool", "text", _block("pools"), _pools),
    _group("owner", "owner"),
    _group("operator", "operator"),
    _group("site", "call site"),
    Column("address", "address", "hex", _block("addresses")),
    Column("requested", "requested", "bytes", _block("requested"), unknown=-1),
    _group("thread", "thread"),
    _group("stream", "stream"),
    _group("module", "module"),
    Column("sequence", "event", "count", _block("sequences")),
)
_EVENT_COLUMNS: Final = (
    Column("row", "row", "row", _numbers(lambda process: process.row_count)),
    Column("sequence", "event", "count", _event("sequences")),
    Column("time", "time", "time", _event("times")),
    Column("kind", "kind", "text", _event("kinds"), _kind_labels),
    Column("name", "name", "text", _event("names"), lambda process: process.index.texts("events/labels")),
    Column("size", "size", "bytes", _event("sizes")),
    Column("place", "pool", "text", _place_codes, _event_places),
    Column("address", "address", "hex", _event("addresses")),
    Column("thread", "thread", "count", _event("threads")),
    Column("block", "block", "row", _event("blocks"), unknown=NEVER),
)
TABLES: Final[Mapping[str, tuple[Column, ...]]] = {"blocks": _BLOCK_COLUMNS, "events": _EVENT_COLUMNS}
_SEARCHED: Final = {"blocks": ("owner", "operator", "site"), "events": ("name", "kind")}
"""Columns whose texts a search looks through."""


@dataclasses.dataclass(frozen=True)
class Page:
    """The part of a table that is asked for; can be a key."""

    table: str
    offset: int = 0
    limit: int = 100
    sort: str | None = None
    is_descending: bool = False
    filter_json: str = ""
    search: str = ""
    pool: int | None = None
    window: Window | None = None


def columns_of(process: ProcessView, table: str) -> list[Column]:
    """Return the columns that a process has of a table.

    Raises:
        UsageError: There is no such table.
    """
    if table not in TABLES:
        message = "is no table"
        raise UsageError(message, option="table", value=table, accepted=", ".join(TABLES))
    left_out = {"stream", "module"} - set(process.facts["groupings"])
    if not process.facts["has_times"]:
        left_out.add("time")
    return [
        column
        for column in TABLES[table]
        if table != "blocks" or column.name not in left_out
        if column.name not in left_out
    ]


def table_columns(process: ProcessView, table: str) -> list[dict[str, Any]]:
    """Return the facts that the page must know of the columns of a table."""
    return [
        {
            "column": column.name,
            "label": column.label,
            "kind": column.kind,
            "filter": "text" if column.labels is not None else "range",
        }
        for column in columns_of(process, table)
    ]


def table_page(process: ProcessView, page: Page) -> Frame:
    """Return a page of a table; `api/table` in ui/PROTOCOL.md.

    Raises:
        UsageError: A column, a filter or a table is not known.
    """
    order = matching_rows(process, dataclasses.replace(page, offset=0, limit=0))
    rows = order[page.offset : page.offset + page.limit]
    total = process.row_count if page.table == "events" else process.facts["blocks"]
    python = events_text(process) if page.table == "events" else all_blocks_text(process)
    info = {"total": total, "matching": len(order), "offset": page.offset, "python": python}
    return Frame(info, rows_as_table(process, page.table, rows))


def rows_as_table(process: ProcessView, table: str, rows: Numbers) -> pl.DataFrame:
    """Return some rows of a table as people read them."""
    columns = {}
    for column in columns_of(process, table):
        values = column.values(process, rows)
        if column.labels is not None:
            columns[column.name] = _shown_texts(process, column.labels, values)
        elif column.kind == "hex":
            columns[column.name] = hexadecimal(values)
        else:
            known = pl.Series(values.astype(np.int64))
            columns[column.name] = known.replace(column.unknown, None) if column.unknown is not None else known
    return pl.DataFrame(columns)


def _shown_texts(process: ProcessView, labels: Callable[[ProcessView], pl.Series], codes: Numbers) -> pl.Series:
    """The texts of some rows, each made presentable once."""
    known = labels(process)
    if len(codes) >= len(known):
        return _all_shown(process, labels).gather(codes)
    used, places = np.unique(codes, return_inverse=True)
    return pl.Series(map(shown, known.gather(used)), dtype=pl.String).gather(places)


@functools.lru_cache(maxsize=32)
def _all_shown(process: ProcessView, labels: Callable[[ProcessView], pl.Series]) -> pl.Series:
    """Texts, presentable; kept, because a table that is saved asks for them piece by piece."""
    return pl.Series(map(shown, labels(process)), dtype=pl.String)


def hexadecimal(values: Numbers) -> pl.Series:
    """Return unsigned numbers of 64 bits as `hex` writes each."""
    digits = _four_digits()
    parts = [digits.gather((values >> np.uint64(shift)) & np.uint64(0xFFFF)) for shift in (48, 32, 16, 0)]
    padded = pl.select(pl.concat_str(parts).str.strip_chars_start("0")).to_series()
    return pl.select("0x" + pl.when(padded == "").then(pl.lit("0")).otherwise(padded)).to_series()


@functools.cache
def _four_digits() -> pl.Series:
    return pl.Series([f"{value:04x}" for value in range(1 << 16)], dtype=pl.String)


@functools.lru_cache(maxsize=_KEPT_ORDERS)
def matching_rows(process: ProcessView, page: Page) -> Numbers:
    """Return the rows of a table that pass, in the order in which they are shown.

    Raises:
        UsageError: A column or a filter is not known.
    """
    known = {column.name: column for column in columns_of(process, page.table)}
    masks = [
        *_filters(process, known, page.filter_json),
        *_search(process, known, page),
        *_scope(process, page),
    ]
    count = process.row_count if page.table == "events" else process.facts["blocks"]
    rows = np.flatnonzero(np.logical_and.reduce(masks)) if masks else np.arange(count)
    rows = rows.astype(np.uint32)  # they are kept
    if page.sort is None:
        return rows[::-1] if page.is_descending else rows
    column = _column(known, page.sort, "sort")
    values = column.values(process, rows)
    if column.labels is not None:
        values = _ranks(column.labels(process))[values]
    order = np.argsort(values, kind="stable")
    return rows[order[::-1] if page.is_descending else order]


def _column(known: Mapping[str, Column], name: str, option: str) -> Column:
    if name not in known:
        message = "is no column of this table"
        raise UsageError(message, option=option, value=name, accepted=", ".join(known))
    return known[name]


def _ranks(labels: pl.Series) -> Numbers:
    """The place of each text among all, sorted."""
    return labels.rank("dense").to_numpy().astype(np.int64)


def _filters(process: ProcessView, known: Mapping[str, Column], filter_json: str) -> list[Numbers]:
    if not filter_json:
        return []
    try:
        given = json.loads(filter_json)
        conditions = dict(given.items())
    except (ValueError, AttributeError, RecursionError) as error:
        message = "is no JSON object of columns"
        raise UsageError(message, option="filter", value=filter_json, accepted='{"size": {"least": 1024}}') from error
    return [_passes(process, _column(known, name, "filter"), condition) for name, condition in conditions.items()]


def _passes(process: ProcessView, column: Column, condition: Any) -> Numbers:
    values = column.values(process, _ALL)
    match condition:
        case {"text": str(text)} if column.labels is not None:
            return _contains(column.labels(process), text)[values]
        case {"any": list(texts)} if column.labels is not None:
            return column.labels(process).is_in([str(text) for text in texts]).to_numpy()[values]
        case {"least": int() | float() | None} | {"most": int() | float() | None} if column.labels is None:
            least, most = condition.get("least"), condition.get("most")
            passes = np.ones(len(values), dtype=np.bool_)
            if isinstance(least, (int, float)):
                passes &= values >= least
            if isinstance(most, (int, float)):
                passes &= values <= most
            return passes
    message = f"is no condition for {column.name}"
    accepted = '{"text": …} or {"any": […]}' if column.labels is not None else '{"least": …, "most": …}'
    raise UsageError(message, option="filter", value=json.dumps(condition), accepted=accepted)


def _contains(labels: pl.Series, text: str) -> Numbers:
    """Whether each text holds another one, whatever the case."""
    found: Numbers = labels.str.to_lowercase().str.contains(text.lower(), literal=True).to_numpy()
    return found


def _search(process: ProcessView, known: Mapping[str, Column], page: Page) -> list[Numbers]:
    text = page.search.strip()
    if not text:
        return []
    if text.lower().startswith("0x"):
        try:
            address = int(text, 16)
        except ValueError as error:
            message = "is no address"
            raise UsageError(message, option="search", value=text, accepted="0x and hexadecimal digits") from error
        return [_holds(process, page.table, address)]
    found = [
        _contains(column.labels(process), text)[column.values(process, _ALL)]
        for name in _SEARCHED[page.table]
        if (column := known[name]).labels is not None
    ]
    return [np.logical_or.reduce(found)]


def _holds(process: ProcessView, table: str, address: int) -> Numbers:
    """Whether an address is in each block, or in the block that each event is about."""
    if not 0 <= address < 1 << 64:
        message = "is no address"
        raise UsageError(message, option="search", value=hex(address), accepted="up to 64 bits")
    begins = process.index.get(f"{table}/addresses")
    sizes = np.maximum(process.index.get(f"{table}/sizes"), 1).astype(np.uint64)
    at = np.uint64(address)
    holds: Numbers = (begins <= at) & (at - begins < sizes)
    return holds


def _scope(process: ProcessView, page: Page) -> list[Numbers]:
    masks = []
    if page.table == "blocks":
        if page.pool is not None:
            process.pool(page.pool)
            masks.append(process.index.get("blocks/pools") == page.pool)
        if page.window is not None:
            begins, ends = process.index.get("blocks/begin_rows"), process.index.get("blocks/end_rows")
            masks.append((begins <= page.window.last_row) & (ends > max(page.window.first_row, 0)))
        return masks
    if page.pool is not None:
        facts = process.pool(page.pool).facts
        is_device = process.index.get("events/devices") == facts["device_number"]
        masks.append(is_device & (process.index.get("events/pools") == facts["pool_number"]))
    if page.window is not None:
        rows = np.arange(process.row_count)
        masks.append((rows > page.window.first_row) & (rows <= page.window.last_row))
    return masks
