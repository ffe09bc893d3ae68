"""Answers stay within their size whatever they are about, and whatever they leave out can be asked for."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.agent.bounded_answer import MOST_BYTES, MOST_ROWS, Page, bounded_answer, json_text
from msmemscope.errors import ConfigurationError
from tests.support.nightly import examples

NAMES = st.builds(lambda text, times: text * times, st.text(max_size=6), st.sampled_from([1, 1, 1, 40, 4000]))
VALUES = st.one_of(NAMES, st.integers(), st.floats(), st.none(), st.booleans())
FRAMES = st.builds(
    lambda name, times: pl.DataFrame({"name": [name] * times, "size": range(times), "parts": [[name] * 3] * times}),
    NAMES.map(lambda text: text.encode("utf-8", "replace").decode()),
    st.sampled_from([0, 1, 600]),
)
CONTENTS = st.dictionaries(
    NAMES,
    st.recursive(
        VALUES | FRAMES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=6),
            st.builds(lambda value, times: [value] * times, inner, st.sampled_from([1, 50])),
            st.dictionaries(NAMES, inner, max_size=6),
        ),
        max_leaves=6,
    ),
    max_size=6,
)


def texts_in(value: Any) -> list[str]:
    """All names and texts of an answer."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts_in(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


@examples(by_day=15)
@given(CONTENTS, st.sampled_from([1, 20, MOST_ROWS]))
def test_no_answer_is_larger_than_allowed(content: dict[str, Any], limit: int) -> None:
    """However many rows there are, however long and hostile their names: and what was left out is counted."""
    answer = bounded_answer(content, Page(limit))
    text = json_text(answer)
    assert len(text.encode()) <= MOST_BYTES
    assert json.loads(text) == answer
    assert all(line.isprintable() for found in texts_in(answer) for line in found.split("\n"))
    for one in answer.get("left_out", []):
        assert one["shown"] < one["total"]


@examples(by_day=15)
@given(CONTENTS, st.sampled_from([1, 20, MOST_ROWS]))
def test_no_table_alone_is_larger_than_allowed(content: dict[str, Any], limit: int) -> None:
    """Each table that an answer names as cut."""
    for one in bounded_answer(content, Page(limit)).get("left_out", [])[:5]:
        try:
            page = bounded_answer(content, Page(limit, one["table"]))
        except ConfigurationError:
            # Names that differ in what was cut of them lead to the first of their kind.
            assert any(len(name) > 80 or not name.isprintable() or not name for name in texts_in(_keys(content)))
            continue
        assert len(json_text(page).encode()) <= MOST_BYTES
        assert page["rows"] or page["total"] == 0


def _keys(value: Any) -> Any:
    """Only the names of a content."""
    if isinstance(value, dict):
        return {key: _keys(item) for key, item in value.items()}
    return [_keys(item) for item in value] if isinstance(value, list) else None


@pytest.mark.parametrize("letters", [1, 400, 30_000])
def test_a_table_can_be_read_to_its_end(letters: int) -> None:
    """By its name and the offset that each page gives; no row is passed over, however large its texts are."""
    rows = [{"number": number, "name": f"{number}" * letters} for number in range(120)]
    content = {"result": {"a/b~c": pl.DataFrame(rows)}}
    (cut,) = bounded_answer(content, Page(50))["left_out"]
    assert (cut["table"], cut["total"]) == ("result/a~1b~0c", 120)
    seen: list[int] = []
    offset: int | None = 0
    while offset is not None:
        page = bounded_answer(content, Page(50, cut["table"], offset))
        assert page["total"] == 120
        seen += [row["number"] for row in page["rows"]]
        offset = page.get("next_offset")
    assert seen == list(range(120))


def test_small_answers_are_whole() -> None:
    """Nothing is added to them."""
    content = {"sites": [{"site": "train.py(3): step", "bytes": 12}], "ratio": 0.5, "none": None}
    assert bounded_answer(content, Page()) == content


def test_control_characters_are_replaced() -> None:
    """In names and in texts; lines of stacks stay lines."""
    answer = bounded_answer({"na\x1bme": "\x1b[2J\u202egpj", "stack": "a.py(1): f\nb.py(2): g\x07\n"}, Page())
    assert answer == {"na\ufffdme": "\ufffd[2J\ufffdgpj", "stack": "a.py(1): f\nb.py(2): g\ufffd\n"}


def test_shortened_texts_are_counted() -> None:
    """And whole in the table alone, where they are not too long."""
    content = {"sites": [{"site": "x" * 500}]}
    answer = bounded_answer(content, Page())
    assert answer["texts_shortened"] == 1
    assert len(answer["sites"][0]["site"]) == 300
    assert "table" in answer["how_to_get_more"]
    assert bounded_answer(content, Page(table="sites"))["rows"] == content["sites"]


@pytest.mark.parametrize("table", ["nothing", "sites/9", "sites/x", "sites/0/site", "", "/", "count", "python_stacks"])
def test_what_is_no_table(table: str) -> None:
    """The error says where names of tables are."""
    content = {"sites": [{"site": "x"}], "count": 3}
    with pytest.raises(ConfigurationError, match="no table of this answer") as raised:
        bounded_answer(content, Page(table=table))
    assert "left_out" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("limit", "table", "offset"), [(0, None, 0), (MOST_ROWS + 1, None, 0), (1, "a", -1), (1, None, 5)]
)
def test_pages_that_mean_nothing(limit: int, table: str | None, offset: int) -> None:
    """Are refused."""
    with pytest.raises(ConfigurationError):
        Page(limit, table, offset)


def test_deep_stacks_are_whole_alone() -> None:
    """In an answer with much else they are cut, which is counted."""
    stack = "".join(f"model.py({line}): forward\n" for line in range(90))
    answer = bounded_answer({"stacks": [stack]}, Page())
    assert answer["texts_shortened"] == 1
    assert answer["stacks"][0].endswith("model.py(39): forward\n…")
    assert bounded_answer({"stacks": [stack]}, Page(table="stacks"))["rows"] == [stack]
