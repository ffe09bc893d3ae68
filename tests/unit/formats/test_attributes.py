"""Attributes as texts, as pairs, and as typed columns."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.attributes import named_texts, pairs_of_texts, table_of_texts
from msmemscope.model.attributes import ATTRIBUTES, AttributeKey, AttributeType
from msmemscope.recording import STRING_SCHEMA
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA
from tests.support.nightly import examples


def texts(*values: str) -> pl.DataFrame:
    """STRING_SCHEMA, with ids from 1."""
    return pl.DataFrame({"id": range(1, len(values) + 1), "text": values}, schema=STRING_SCHEMA)


def columns_of(text: str) -> dict[str, object]:
    """The columns of one text that are not null."""
    table = table_of_texts(texts(text))
    assert table.schema == ATTRIBUTE_SCHEMA
    return {
        name: value for row in table.drop("attribute_id").to_dicts() for name, value in row.items() if value is not None
    }


def spelled(text: str) -> str:
    """A text once it has been taken apart and put together again."""
    named = named_texts(pairs_of_texts(texts(text)))
    return ",".join(f"{name}:{value}" for name, value in named.select("name", "value").iter_rows())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("no pair", {}),
        ("CANN@RUNTIME", {"module": "RUNTIME"}),
        ("CANN@GE@x,page_type:huge,alloc_type:create", {"module": "GE", "page_type": "huge", "allocation_kind": "create"}),
        ("page_type:normal", {"page_type": "normal"}),
        ("pinned:true", {"is_pinned": True}),
        ("pinned:maybe", {}),
        ("func:halMemAlloc,req_size:64,flag:7", {"function": "halMemAlloc", "requested_bytes": 64, "allocation_flag": 7}),
        ("free:1,device_rate:12.345678", {"free_bytes": 1, "device_rate": 12.345678}),
        ("dtype:torch.float32,shape:[2, 3]", {"dtype": "torch.float32", "shape": "[2, 3]"}),
        ("path:/a,b/c,workspace_ptr:0x1f,workspace_size:3", {"path": "/a,b/c", "workspace_address": 31, "workspace_bytes": 3}),
        ("path:/a,workspace_ptr:0", {"path": "/a", "workspace_address": 0}),
        ("streamId:-1", {}),
        ("free:99999999999999999999", {}),
        ("free:1,free:2", {"free_bytes": 1}),
        ("note:mine,free:1", {"free_bytes": 1}),
    ],
)  # fmt: skip
def test_columns_of_texts(text: str, expected: dict[str, object]) -> None:
    """Each key has its column and its type; what is no value of that type is none."""
    assert columns_of(text) == expected


def test_columns_of_watched_memory() -> None:
    """Lines, as older event logs have them."""
    found = columns_of(
        "watch=auto\nid=0\nexact=0\noperator=aten.add,out:1\nafter=00000000000000ff\nranges=0-63,128-191,...\nwritten_neighbour=1"
    )
    assert found == {
        "watch": "auto", "watch_id": 0, "is_exact": False, "operator": "aten.add,out:1", "after": "00000000000000ff",
        "ranges": [{"first": 0, "last": 63}, {"first": 128, "last": 191}], "has_more_ranges": True,
        "neighbour_is_written": True,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["ranges=1-2,3-", "ranges=1-2,..."])
def test_ranges_that_were_cut_off(text: str) -> None:
    """Whole ranges count, and a flag says that there are more."""
    assert columns_of(f"watch=auto\n{text}") == {
        "watch": "auto", "ranges": [{"first": 1, "last": 2}], "has_more_ranges": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["free:007", "flag:-1", "device_rate:1.5", "workspace_ptr:31", "other:x y", "pinned:false"]
)
def test_unusual_spellings_come_out_as_they_went_in(text: str) -> None:
    """Of other tools, and of damaged logs."""
    assert spelled(text) == text


_VALUES = {
    AttributeType.TEXT: st.text(st.characters(codec="utf-8", exclude_characters="\x1e"), max_size=8).filter(
        lambda text: "," not in text and "\n" not in text
    ),
    AttributeType.NUMBER: st.integers(0, 2**64 - 1).map(str),
    AttributeType.ADDRESS: st.integers(0, 2**64 - 1).map(lambda value: f"{value:#x}" if value else "0"),
    AttributeType.CHECKSUM: st.integers(0, 2**64 - 1).map(lambda value: f"{value:016x}"),
    AttributeType.PERCENT: st.integers(0, 10**8).map(lambda value: f"{value // 10**6}.{value % 10**6:06d}"),
    AttributeType.SWITCH: st.sampled_from(["0", "1"]),
    AttributeType.TRUTH: st.just("true"),
}


@examples(by_day=40)
@given(
    chosen=st.lists(
        st.sampled_from(ATTRIBUTES).flatmap(lambda attribute: st.tuples(st.just(attribute), _VALUES[attribute.type])),
        max_size=6,
    )
)
def test_what_is_usual_is_typed_and_comes_out_as_it_went_in(chosen: list[tuple[object, str]]) -> None:
    """Every key, every value of its type: no text is kept where a number says the same."""
    text = ",".join(f"{attribute.name}:{value}" for attribute, value in chosen)  # type: ignore[attr-defined]
    assert spelled(text) == text
    pairs = pairs_of_texts(texts(text))
    assert pairs["key"].to_list() == [attribute.key for attribute, _ in chosen]  # type: ignore[attr-defined]
    is_text = pairs["key"].is_in(
        [int(attribute.key) for attribute in ATTRIBUTES if attribute.type is AttributeType.TEXT]
    )
    assert (pairs["text"].is_not_null() == is_text).all()


def test_every_key_is_described_once() -> None:
    """By rising number, with a name of its own."""
    assert [attribute.key for attribute in ATTRIBUTES] == sorted(AttributeKey)
    assert len({attribute.name for attribute in ATTRIBUTES}) == len(ATTRIBUTES)
