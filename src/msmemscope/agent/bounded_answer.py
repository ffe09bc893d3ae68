"""Answers of a size that an agent can read: tables are cut, texts shortened, and each cut is counted and named.

An answer is first shown with the first rows of every table. `left_out` names the tables that were cut, by the way to
them (`result/step_leaks/leaked`), with the number of their rows. With such a name an agent can ask for any stretch of a
table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.errors import ConfigurationError
from msmemscope.reports.analysis_json import result_content
from msmemscope.reports.html.shown_text import MOST_LETTERS, shown

if TYPE_CHECKING:
    from msmemscope.recording import Recording

MOST_BYTES: Final = 40_000
"""Of an answer as JSON in UTF-8."""
DEFAULT_ROWS: Final = 20
MOST_ROWS: Final = 1000
_MOST_LETTERS_ALONE: Final = 2000
"""Letters of a text where a table is asked for alone."""
_MOST_LINES: Final = 40
"""Lines of a stack."""
_MOST_LINES_ALONE: Final = 1000
"""As deep as stacks are recorded at most."""
_MOST_NAMED: Final = 40
"""Tables that are named as cut; further ones are counted."""
_MOST_KEYS: Final = 64
"""Entries of an object; none that we make has more fields, objects by the names of a program can have any number."""
_DEEPEST: Final = 24
_STACK_TABLES: Final = ("python_stacks", "native_stacks")
"""Fields of recordings. An answer has the parts of them that its rows name; asked for alone they are whole."""
_LETTERS_OF_PATHS: Final = 80
_HOW_TO_GET_MORE: Final = (
    "call again with `table` as left_out names it, and `offset` and `limit` for its rows; texts are longer there"
)


@dataclasses.dataclass(frozen=True)
class Page:
    """Which part of an answer is asked for.

    Raises:
        ConfigurationError: A value is not accepted.
    """

    limit: int = DEFAULT_ROWS
    """Rows of each table at most."""
    table: str | None = None
    """The way to the only table that is wanted; None for the answer with the first rows of each."""
    offset: int = 0
    """Rows of that table that are passed over."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if not 1 <= self.limit <= MOST_ROWS:
            message = "not accepted"
            raise ConfigurationError(message, option="limit", value=str(self.limit), accepted=f"1 to {MOST_ROWS}")
        if self.offset < 0:
            message = "not accepted"
            raise ConfigurationError(message, option="offset", value=str(self.offset), accepted="0 or more")
        if self.offset and self.table is None:
            message = "goes together with table"
            hint = "left_out of an answer names its tables"
            raise ConfigurationError(message, option="offset", value=str(self.offset), hint=hint)


@dataclasses.dataclass(frozen=True)
class OfRecording:
    """A part of an answer whose rows name stacks of a recording; the stacks of the rows that are left go with it."""

    content: object
    recording: Recording


@dataclasses.dataclass(frozen=True)
class _Measure:
    """How much of everything is kept."""

    rows: int
    letters: int
    keys: int = _MOST_KEYS
    depth: int = _DEEPEST


def bounded_answer(content: object, page: Page) -> dict[str, Any]:
    """Turn the findings of a tool into an answer of at most `MOST_BYTES`.

    Args:
        content: A mapping or a dataclass of tables, mappings, lists, dataclasses and values.
        page: The part of the answer that is asked for.

    Returns:
        Its content, or `table`, `offset`, `total` and `rows` of one table. Where something was left out, also
        `left_out` and `how_to_get_more`. Where texts were shortened, `texts_shortened` is their number.

    Raises:
        ConfigurationError: There is no such table.
    """
    found = None if page.table is None else _table_at(content, page.table.strip("/"))
    smallest: dict[str, Any] = {}
    for measure in _measures(page):
        try:
            smallest = _whole(content, measure) if found is None else _stretch(found, page.offset, measure)
        except _TooLargeError:
            continue
        if len(json_text(smallest).encode()) <= MOST_BYTES:
            break
    return smallest


def json_text(answer: object) -> str:
    """Write an answer as JSON."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False)


def _measures(page: Page) -> list[_Measure]:
    """From the wanted size to next to nothing: the last one fits any content."""
    letters = MOST_LETTERS if page.table is None else _MOST_LETTERS_ALONE
    measures = []
    rows = page.limit
    while rows > 1:
        measures.append(_Measure(rows, letters))
        rows //= 2
    measures += [_Measure(1, letters), _Measure(1, MOST_LETTERS), _Measure(1, 100), _Measure(1, 40)]
    measures += [_Measure(0, 40), _Measure(0, 40, keys=8)]
    return [*measures, *(_Measure(0, 40, keys=8, depth=depth) for depth in (4, 3, 2, 1))]


def _whole(content: object, measure: _Measure) -> dict[str, Any]:
    """The answer with the first rows of every table."""
    cutting = _Cutting(measure)
    answer: dict[str, Any] = cutting.plain(cutting.cut(content, ""), "", 0)
    return cutting.with_remarks(answer)


def _stretch(table: _Table, offset: int, measure: _Measure) -> dict[str, Any]:
    """Some rows of one table, at least one where there is any: who goes on with the next ones gets to the end."""
    cutting = _Cutting(measure)
    rows = table.rows
    stretch = rows[offset : offset + max(measure.rows, 1)]
    listed = list(stretch.iter_rows(named=True)) if isinstance(stretch, pl.DataFrame) else stretch
    ways = [f"{table.path}/{offset + number}" for number in range(len(listed))]
    content: dict[str, Any] = {"rows": [cutting.cut(row, way) for row, way in zip(listed, ways, strict=True)]}
    if table.recording is not None:
        content = result_content(content, table.recording)
    answer: dict[str, Any] = {"table": shown(table.path, 3 * _LETTERS_OF_PATHS), "offset": offset, "total": len(rows)}
    if offset + len(listed) < len(rows):
        answer["next_offset"] = offset + len(listed)
    plain_rows = zip(content.pop("rows"), ways, strict=True)
    answer["rows"] = [cutting.plain(row, way, 0) for row, way in plain_rows]
    for name, stacks in content.items():
        if stacks:
            answer[name] = cutting.plain(stacks, _joined(table.of_recording, name), 0)
    return cutting.with_remarks(answer)


class _TooLargeError(Exception):
    """An answer cannot fit, which is known before it is whole: tables within tables multiply."""


class _Cutting:
    """Cuts one answer to a measure, and counts what it cuts.

    `cut` goes first, over results as they are: only a few of a million rows become objects. Then `plain` makes them fit
    for JSON.
    """

    def __init__(self, measure: _Measure) -> None:
        self.measure = measure
        self.left_out: dict[str, tuple[int, int]] = {}
        """By the way to a table: its rows, and how many of them are kept."""
        self.shortened = 0
        self._least_bytes = 0
        """Of the kept part, as JSON: a value and its separator take two."""

    def cut(self, value: object, path: str) -> Any:
        """Return a value with the first rows of each table."""
        self._count(2)
        if isinstance(value, OfRecording):
            return result_content(self.cut(value.content, path), value.recording)
        if isinstance(value, (pl.DataFrame, list, tuple)):
            kept = value[: self.measure.rows]
            self._note(path, len(value), len(kept))
            if isinstance(kept, pl.DataFrame):
                self._count(2 * kept.height)
                return kept
            return [self.cut(item, f"{path}/{number}") for number, item in enumerate(kept)]
        if (fields := _fields(value)) is not None:
            entries = list(fields.items())[: self.measure.keys]
            self._note(path, len(fields), len(entries))
            return {key: self.cut(item, _joined(path, key)) for key, item in entries}
        return value

    def plain(self, value: object, path: str, depth: int) -> Any:
        """Return what JSON takes, with texts that are data."""
        self._count(2)
        if isinstance(value, Mapping):
            if depth >= self.measure.depth:
                self._note(path, len(value), 0)
                return {}
            entries = list(value.items())[: self.measure.keys]
            self._note(path, len(value), len(entries))
            found: dict[str, Any] = {}
            for key, item in entries:
                name = shown(str(key), _LETTERS_OF_PATHS)
                while name in found:  # two names that differ in the part that was left out
                    name += "'"
                found[name] = self.plain(item, _joined(path, key), depth + 1)
            return found
        if isinstance(value, (list, tuple)):
            kept = value[: self.measure.rows] if depth < self.measure.depth else []
            self._note(path, len(value), len(kept))
            return [self.plain(item, f"{path}/{number}", depth + 1) for number, item in enumerate(kept)]
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, pl.DataFrame):
            return self.plain(list(value.iter_rows(named=True)), path, depth)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if value - value == 0 else None
        return self._text(str(value))

    def with_remarks(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Add what was cut."""
        if self.shortened:
            answer["texts_shortened"] = self.shortened
        if self.left_out or self.shortened:
            answer["how_to_get_more"] = _HOW_TO_GET_MORE
        if self.left_out:
            most = _MOST_NAMED if self.measure.rows else _MOST_NAMED // 4
            ways = list(self.left_out.items())
            answer["left_out"] = [{"table": way, "total": total, "shown": kept} for way, (total, kept) in ways[:most]]
            if len(ways) > most:
                answer["further_tables_left_out"] = len(ways) - most
        return answer

    def _count(self, least_bytes: int) -> None:
        self._least_bytes += least_bytes
        # Each value is passed twice, by `cut` and by `plain`.
        if self._least_bytes > 2 * MOST_BYTES and self.measure.depth > 1:
            raise _TooLargeError

    def _note(self, path: str, total: int, kept: int) -> None:
        if kept < total:
            way = shown(path.removeprefix("/"), 3 * _LETTERS_OF_PATHS)
            # `cut` has counted the whole; `plain` only sees the rest.
            self.left_out[way] = (max(total, self.left_out.get(way, (0, 0))[0]), kept)

    def _text(self, text: str) -> str:
        # Stacks have a frame per line; each is a text of its own.
        most = _MOST_LINES if self.measure.letters <= MOST_LETTERS else _MOST_LINES_ALONE
        lines = text.split("\n", most) if "\n" in text else [text]
        kept = lines[: 1 if self.measure.rows == 0 else most]
        self.shortened += len(lines) > len(kept) or any(len(line) > self.measure.letters for line in kept)
        self._count(sum(min(len(line), self.measure.letters) for line in kept))
        more = ["…"] if len(lines) > len(kept) else []
        return "\n".join([*(shown(line, self.measure.letters) for line in kept), *more])


def _fields(value: object) -> dict[Any, Any] | None:
    """The parts of a dataclass or a mapping, without columns, which analyses hand on to each other; None of others."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: one for name, one in fields.items() if not isinstance(one, pl.Series)}
    return dict(value) if isinstance(value, Mapping) else None


def _joined(path: str, key: object) -> str:
    """The way to an entry, as JSON pointers write it, with the shown part of its name."""
    name = shown(str(key), _LETTERS_OF_PATHS).replace("~", "~0").replace("/", "~1")
    return f"{path}/{name}"


@dataclasses.dataclass(frozen=True)
class _Table:
    """The part of an answer at the end of a way to a table."""

    path: str
    rows: pl.DataFrame | list[Any]
    recording: Recording | None
    """Whose stacks the rows name."""
    of_recording: str
    """The way to the part of the answer that is about this recording."""


def _table_at(content: object, path: str) -> _Table:
    """Find a table by the way to it.

    Raises:
        ConfigurationError: There is none.
    """
    value, recording = _inside(content, None)
    passed = of_recording = ""
    for part in path.split("/"):
        # Asked for alone, the stacks of a recording are all that it has.
        is_of_stacks = recording is not None and part in _STACK_TABLES and passed == of_recording
        whole = getattr(recording, part) if is_of_stacks else None
        found, inside = _inside(_entry(value, part) if whole is None else whole, recording)
        passed = f"{passed}/{part}"
        if inside is not recording:
            of_recording = passed
        value, recording = found, inside
    rows = _rows(value)
    if rows is None:
        message = "no table of this answer"
        hint = "left_out of the answer without `table` names the tables that were cut"
        raise ConfigurationError(message, option="table", value=shown(path, 200), hint=hint)
    return _Table(path, rows, recording, of_recording)


def _inside(value: object, around: Recording | None) -> tuple[object, Recording | None]:
    """The content of an `OfRecording`, and its recording; another value and the recording around it."""
    return (value.content, value.recording) if isinstance(value, OfRecording) else (value, around)


def _entry(value: object, part: str) -> object:
    """The value that a part of a way leads to; None for nothing."""
    if isinstance(value, (pl.DataFrame, list, tuple)):
        is_row = part.isascii() and part.isdecimal() and len(part) < len(str(1 << 63)) and int(part) < len(value)
        if not is_row:
            return None
        return value.row(int(part), named=True) if isinstance(value, pl.DataFrame) else value[int(part)]
    return next((item for key, item in (_fields(value) or {}).items() if _joined("", key) == f"/{part}"), None)


def _rows(value: object) -> pl.DataFrame | list[Any] | None:
    """The rows of a table; those of an object are its entries. None of other values."""
    if isinstance(value, (pl.DataFrame, list)):
        return value
    if isinstance(value, tuple):
        return list(value)
    fields = _fields(value)
    return None if fields is None else [{"name": str(key), "value": item} for key, item in fields.items()]
