"""Which ranks are observed is decided twice, by the native core and before Python loads anything: both decide the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope import _native
from msmemscope.bootstrap import rank_choice
from msmemscope.capture.launcher_environment import RANK_VARIABLES as LAUNCHERS
from msmemscope.configuration import Config
from msmemscope.configuration.options import with_keywords
from msmemscope.errors import ConfigurationError

_RANK = st.integers(0, 40)
_RANGE = st.tuples(_RANK, _RANK).map(lambda pair: f"{min(pair)}-{max(pair)}")
_RANKS = st.lists(_RANGE | _RANK.map(str), max_size=4).map(",".join)
_SAMPLE = st.just("") | st.tuples(st.integers(1, 1_000_000), st.integers(1, 1_000_000)).map(
    lambda pair: f"{min(pair)}/{max(pair)}"
)
_VALUE = _RANK.map(str) | st.sampled_from(["", "-1", "x", " 3", "3 ", "0003", "999999999", "1000000000"])
_ENVIRONMENT = st.dictionaries(st.sampled_from([*rank_choice.RANK_VARIABLES, "LOCAL_RANK", "RANKS"]), _VALUE)


def is_left_out(settings: dict[str, str], environment: dict[str, str]) -> bool:
    """As Python decides."""
    return bool(rank_choice.is_left_out(settings, environment))  # type: ignore[no-untyped-call]


def _native_decision(settings: dict[str, str], environment: dict[str, str]) -> bool:
    text = Config(output="/x", ranks=settings["ranks"], sample_ranks=settings["sample_ranks"]).to_settings_text()
    return _native.is_left_out(text, [f"{name}={value}" for name, value in environment.items()])


@given(_RANKS, _SAMPLE, _ENVIRONMENT)
def test_the_native_core_and_python_decide_the_same(ranks: str, sample: str, environment: dict[str, str]) -> None:
    """Whatever is chosen, and whatever the environment holds."""
    settings = {"ranks": ranks, "sample_ranks": sample}
    assert is_left_out(settings, environment) == _native_decision(settings, environment)


def test_ranks_are_found_in_the_same_variables() -> None:
    """A process that is chosen by one number must not be called by another."""
    assert LAUNCHERS == rank_choice.RANK_VARIABLES


def _chosen(settings: dict[str, str], count: int) -> list[int]:
    return [rank for rank in range(count) if not is_left_out(settings, {"RANK": str(rank)})]


def test_ranks_that_are_listed_are_observed() -> None:
    """Single ones and ranges, both ends included; and a process that has no rank."""
    assert _chosen({"ranks": "0,7,8-15"}, 100) == [0, *range(7, 16)]
    assert not is_left_out({"ranks": "5"}, {})
    assert _chosen({}, 3) == [0, 1, 2]


@pytest.mark.parametrize("sample", ["1/16", "3/16", "1/2", "1/1000"])
def test_a_sample_is_spread_evenly_and_the_same_for_every_size(sample: str) -> None:
    """As many of each position along an axis of 8 as of the others, so that no kind of rank is missing; rank 0 always."""
    settings = {"sample_ranks": sample}
    count, _, of = sample.partition("/")
    size = 16_000
    chosen = _chosen(settings, size)
    expected = size * int(count) / int(of)
    assert abs(len(chosen) - expected) <= 2
    assert chosen[0] == 0
    assert [rank for rank in chosen if rank < 50] == _chosen(settings, 50)
    for position in range(8):
        assert abs(sum(rank % 8 == position for rank in chosen) - expected / 8) <= max(expected / 80, 4)


def test_a_sample_is_added_to_ranks_that_are_listed() -> None:
    """A rank is observed if either has it."""
    assert set(_chosen({"ranks": "1,2", "sample_ranks": "1/16"}, 64)) == {
        1,
        2,
        *_chosen({"sample_ranks": "1/16"}, 64),
    }


@pytest.mark.parametrize(
    ("keywords", "ranks", "sample"),
    [
        ({"ranks": " 0, 7,8 - 15 "}, "0,7,8-15", ""),
        ({"ranks": [0, 3]}, "0,3", ""),
        ({"ranks": 4}, "4", ""),
        ({"ranks": ""}, "", ""),
        ({"sample_ranks": "1/16"}, "", "1/16"),
    ],
)
def test_options_are_written_in_one_way(keywords: dict[str, object], ranks: str, sample: str) -> None:
    """As the native core reads them, and as they come back from the settings text."""
    config = with_keywords(Config(), keywords)
    assert (config.ranks, config.sample_ranks) == (ranks, sample)
    assert Config.from_settings_text(config.to_settings_text()) == config


@pytest.mark.parametrize(
    "keywords",
    [
        {"ranks": "a"},
        {"ranks": "3-1"},
        {"ranks": "-1"},
        {"ranks": "1234567890"},
        {"sample_ranks": "0/4"},
        {"sample_ranks": "5/4"},
        {"sample_ranks": "1/1000001"},
        {"sample_ranks": "4"},
        {"role": "a\nb"},
        {"role": "a" * 81},
    ],
)
def test_what_chooses_nothing_sensible_is_refused(keywords: dict[str, object]) -> None:
    """With the value, and what is accepted."""
    with pytest.raises(ConfigurationError) as caught:
        with_keywords(Config(), keywords)
    assert caught.value.accepted
