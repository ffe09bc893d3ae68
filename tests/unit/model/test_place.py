"""The place of a process in a distributed job, as facts, as JSON and in words."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.export.redaction import Redaction
from msmemscope.model.place import AXES, Place

_NUMBERS = st.none() | st.integers(0, 10**9 - 1)
_TEXTS = st.text(st.characters(categories=("L", "N", "P")), max_size=40)


@st.composite
def _places(draw: st.DrawFn) -> Place:
    coordinates, sizes = {}, {}
    for axis in draw(st.sets(st.sampled_from(AXES))):
        size = draw(st.integers(1, 10**6))
        coordinates[axis] = draw(st.integers(0, size - 1))
        if draw(st.booleans()):
            sizes[axis] = size
    return Place(
        rank=draw(_NUMBERS),
        local_rank=draw(_NUMBERS),
        world_size=draw(_NUMBERS),
        local_world_size=draw(_NUMBERS),
        node=draw(_TEXTS),
        restart_count=draw(_NUMBERS),
        role=draw(_TEXTS),
        coordinates=coordinates,
        axis_sizes=sizes,
    )


@given(_places())
def test_a_place_comes_back_from_its_facts_and_from_json(place: Place) -> None:
    """Whatever is known is known again, and nothing else."""
    assert Place.from_facts({key: ("9", text) for key, text in place.to_facts().items()}) == place
    assert Place.from_content(json.loads(json.dumps(place.content()))) == place


@given(
    st.dictionaries(st.sampled_from([*Place(1, 2, 3, 4, "a", 5, "b", {"data": 1}).to_facts()]), st.text(max_size=12))
)
def test_facts_that_make_no_sense_are_left_out(facts: dict[str, str]) -> None:
    """A log can say anything: what is read can be written, and read again."""
    place = Place.from_facts({key: (text,) for key, text in facts.items()})
    assert Place.from_facts({key: (text,) for key, text in place.to_facts().items()}) == place


@pytest.mark.parametrize(
    "content", [None, [], "x", {"rank": -1}, {"rank": "a"}, {"coordinates": {"data": 3}, "axis_sizes": {"data": 2}}]
)
def test_json_that_makes_no_sense_is_no_place(content: object) -> None:
    """Files are untrusted input."""
    assert Place.from_content(content) == Place()


def test_words_name_what_tells_processes_apart() -> None:
    """An axis that is not divided is left out, and so is what is not known."""
    place = Place(
        3, 1, 8, 4, "a", 2, "actor", {"data": 0, "tensor": 1, "pipeline": 0}, {"data": 2, "tensor": 2, "pipeline": 1}
    )
    assert place.words == "rank 3 of 8, local rank 1, data 0, tensor 1, actor, on a, restart 2"
    assert Place(node="a").words == ""
    assert not Place(node="a")
    assert Place(role="rollout").words == "rollout"


def test_the_role_of_the_settings_is_that_of_programs_that_note_none() -> None:
    """A program without Python notes no more than its settings."""
    assert Place.from_facts({"setting.role": ("trainer",)}) == Place(role="trainer")
    assert Place.from_facts({"setting.role": ("trainer",), "process.role": ("critic",)}) == Place(role="critic")


def test_a_redacted_recording_keeps_numbers_and_no_names() -> None:
    """Hosts and roles are words of the user."""
    place = Place(3, 1, 8, 4, "node7", 0, "actor", {"tensor": 1}, {"tensor": 2})
    facts = {key: (text,) for key, text in place.to_facts().items()} | {"setting.role": ("actor",)}
    kept = Place.from_facts(Redaction("key").facts(facts))
    assert kept == dataclasses.replace(place, node="", role="")
