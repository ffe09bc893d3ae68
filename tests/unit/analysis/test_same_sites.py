"""Call sites of two runs are matched over an edit of the source between them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.compare.same_sites import same_sites
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.recording import Recording

FILE = "/home/me/train.py"
BEFORE = {3: "a = load()", 5: "b = ones()", 6: "c = ones()", 9: "kept.append(c)"}


def recording(lines: Mapping[int, str], file: str = FILE) -> Recording:
    """One that knows the text of some lines."""
    texts = {(file, number): text for number, text in lines.items()}
    return dataclasses.replace(Trace().recording(), source_texts=texts)


def matched(base: Mapping[int, str], other: Mapping[int, str], *, is_known: bool = True) -> dict[int, int | None]:
    """The line of the second run for each of the first that has another number; None for one that has gone."""
    sites = [[f"{FILE}({number}): main" for number in lines] for lines in (base, other)]
    texts = (base, other) if is_known else ({}, {})
    found = same_sites(recording(texts[0]), recording(texts[1]), *sites)
    numbers: dict[int, int | None] = {}
    for site, name in found.names.items():
        line = int(site.partition("(")[2].partition(")")[0])
        numbers[line] = None if name.endswith(" (base)") else int(name.partition("(")[2].partition(")")[0])
    assert found.moved == sum(number is not None for number in numbers.values())
    return numbers


@pytest.mark.parametrize("is_known", [True, False])
def test_an_inserted_line_moves_what_is_below(is_known: bool) -> None:  # noqa: FBT001
    """Also where a dump does not say the text of lines."""
    after = {3: "a = load()", 6: "b = ones()", 7: "c = ones()", 10: "kept.append(c)"}
    assert matched(BEFORE, after, is_known=is_known) == {5: 6, 6: 7, 9: 10}


def test_a_line_that_was_mended_is_the_nearest_one() -> None:
    """It has another text, and lies where the line above it has moved to."""
    after = {13: "a = load()", 15: "b = ones()", 16: "c = ones()", 20: "kept[:] = [c]"}
    assert matched(BEFORE, after) == {3: 13, 5: 15, 6: 16, 9: 20}


def test_a_line_that_has_gone_is_none_of_those_that_have_its_number() -> None:
    """The line that has its number now is another line, and keeps the name to itself."""
    base = {5: "a = ones()", 6: "b = zeros()", 7: "c = full()"}
    after = {5: "b = zeros()", 6: "c = full()"}
    assert matched(base, after) == {5: None, 6: 5, 7: 6}


def test_lines_that_changed_places() -> None:
    """Each is known by its text."""
    base = {5: "a = ones()", 6: "b = zeros()", 7: "c = full()"}
    after = {5: "c = full()", 6: "a = ones()", 7: "b = zeros()"}
    assert matched(base, after) == {5: 6, 6: 7, 7: 5}


def test_equal_lines_keep_their_order() -> None:
    """Three calls that are written alike are three sites."""
    base = {5: "a = ones()", 6: "a = ones()", 7: "a = ones()"}
    after = {8: "a = ones()", 10: "a = ones()", 30: "a = ones()"}
    assert matched(base, after) == {5: 8, 6: 10, 7: 30}


def test_without_texts_numbers_count() -> None:
    """Lines that another run does not have are only paired with near ones."""
    assert matched(BEFORE, {3: "", 5: "", 9: ""}, is_known=False) == {}
    assert matched({3: "", 5: ""}, {5: "", 60: ""}, is_known=False) == {}


def test_functions_and_libraries_stay_what_they_are() -> None:
    """A line of another function is no partner, and a library that is called there is part of the site."""
    texts = {5: "step()", 6: "step()"}
    found = same_sites(
        recording(texts),
        recording(texts),
        [f"{FILE}(5): one, in lib/optim.py(7): step", "aten.mm", f"{FILE}(9)"],
        [f"{FILE}(6): one, in lib/optim.py(7): step", f"{FILE}(5): two", "aten.mm", f"{FILE}(9)"],
    )
    assert found.names == {f"{FILE}(5): one, in lib/optim.py(7): step": f"{FILE}(6): one, in lib/optim.py(7): step"}


def test_a_program_in_another_folder_is_the_same() -> None:
    """As a copy of an experiment is; of two files of one name nobody knows."""
    other = "/home/me/second/train.py"
    text = {5: "a = ones()"}
    found = same_sites(recording(text), recording(text, other), [f"{FILE}(5): main"], [f"{other}(5): main"])
    assert found.names == {f"{FILE}(5): main": f"{other}(5): main"}
    two = [f"{other}(5): main", "/home/you/train.py(5): main"]
    assert same_sites(recording(text), recording(text, other), [f"{FILE}(5): main"], two).names == {}
