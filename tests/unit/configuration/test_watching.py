"""The grammar of `--watch` and of the options that go with it."""

from __future__ import annotations

import pytest

from msmemscope.configuration import (
    OPTION_BY_SPELLING,
    CollectionItem,
    Config,
    GivenOption,
    WatchChecksum,
    with_keywords,
    with_options,
)
from msmemscope.configuration.watching import WatchWindow, window_of
from msmemscope.errors import ConfigurationError, UsageError

ADD, MM = "torch._ops.aten.add.Tensor", "torch._ops.aten.mm.default"
ATB = "0/0_GraphOperation/0_ElewiseOperation"


def watched(text: str, option: str = "--watch") -> Config:
    """The settings that follow from one option."""
    return with_options(Config(), [GivenOption(OPTION_BY_SPELLING[option], option, text)])


@pytest.mark.parametrize(
    "text, window",
    [
        (MM, WatchWindow(end=MM)),
        (f",{MM}", WatchWindow(end=MM)),
        (f"{MM},full-content", WatchWindow(end=MM, is_full=True)),
        (f"{ADD},{MM}", WatchWindow(ADD, None, MM)),
        (f"{ADD}:0,{MM}", WatchWindow(ADD, 0, MM)),
        (f"{ADD}:out0,{MM}", WatchWindow(ADD, 0, MM)),
        (f"{ADD}:out12,{MM},full-content", WatchWindow(ADD, 12, MM, is_full=True)),
        (f"{ADD}:1\N{FULLWIDTH COMMA}{MM}\N{FULLWIDTH COMMA}full-content", WatchWindow(ADD, 1, MM, is_full=True)),
        (f" {ADD} : 1 , {MM} ", WatchWindow(ADD, 1, MM)),
        (f"{ATB},{ATB},full-content", WatchWindow(ATB, None, ATB, is_full=True)),
        (
            "token0/layer0/module0/op0,token0/layer0/module0/op1",
            WatchWindow("token0/layer0/module0/op0", None, "token0/layer0/module0/op1"),
        ),
        ("op0,op1,full-content", WatchWindow("op0", None, "op1", is_full=True)),
        ("Add_06a6d4f1_0", WatchWindow(end="Add_06a6d4f1_0")),
        ("auto", WatchWindow(is_automatic=True)),
        ("auto,full-content", WatchWindow(is_automatic=True, is_full=True)),
        ("", WatchWindow()),
    ],
)
def test_accepted(text: str, window: WatchWindow) -> None:
    """Every form that the documents show, and what the setting says when it is read back."""
    config = watched(text)
    assert window_of(config.watch) == window
    assert window_of(Config.from_settings_text(config.to_settings_text()).watch) == window


@pytest.mark.parametrize(
    "text, value, reason, hint",
    [
        ("full-content", "full-content", "names no operator", "torch._ops"),
        ("op0,full-content,op1", "op0,full-content,op1", "full-content stands last", None),
        ("op0,op1,op2", "op0,op1,op2", "names 3 operators", "full-content"),
        ("op0:first,op1", "first", "not the number of an output", "count from 0"),
        ("op0:-1,op1", "-1", "not the number of an output", "count from 0"),
        ("op0:01,op1", "01", "not the number of an output", "count from 0"),
        ("op0:99999999999,op1", "99999999999", "not the number of an output", "count from 0"),
        ("op0:,op1", "", "not the number of an output", "count from 0"),
        (":0,op1", ":0", "an output without its operator", None),
        ("op0,op1:0", "op1:0", "only the first operator", "start:0,end"),
        ("op1:0", "op1:0", "only the first operator", "start:0,end"),
        ("auto,op1", "auto,op1", "stands without operators", None),
        ("aten::add.Tensor,op1", "aten::add.Tensor", "not the name of an operator", "torch._ops.aten.add.Tensor"),
        ("aten::mm", "aten::mm", "not the name of an operator", "torch._ops.aten.mm.default"),
        ("5", "5", "not the name of an operator", "torch._ops"),
        ("op0,true", "true", "not the name of an operator", "torch._ops"),
        ("Off", "Off", "not the name of an operator", "torch._ops"),
        ("a" * 255, "a" * 40 + "…", "more than 254 bytes", None),
        ("a\x07b", "a\x07b", "control character", None),
    ],
)
def test_refused(text: str, value: str, reason: str, hint: str | None) -> None:
    """The error names the value, what is wrong with it, and what to write instead."""
    with pytest.raises(UsageError, match=reason) as caught:
        watched(text)
    assert caught.value.option == "--watch"
    assert caught.value.value == value
    assert caught.value.accepted
    assert "full-content" in caught.value.accepted
    assert hint is None or hint in str(caught.value.hint)


def test_python_callers_have_it() -> None:
    """The same text, and the same error."""
    assert window_of(with_keywords(Config(), {"watch": "op0,op1,full-content"}).watch).is_full
    with pytest.raises(ConfigurationError, match="names no operator"):
        with_keywords(Config(), {"watch": "full-content"})


def test_watching_brings_the_events_that_it_needs() -> None:
    """Operators have to be observed, and blocks, whose end must be noticed."""
    config = with_keywords(Config(), {"events": "", "watch": "auto"})
    assert config.events == {CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.LAUNCH}


def test_sizes_and_checksum() -> None:
    """Sizes and the checksum are read, and values that are too small are refused."""
    assert watched("64M", "--watch-budget").watch_budget == 64 << 20
    assert watched("1T", "--watch-max-size").watch_max_size == 1 << 40
    assert watched("crc64", "--watch-checksum").watch_checksum is WatchChecksum.CRC64
    for option, text in (("--watch-budget", "2M"), ("--watch-max-size", "0"), ("--watch-checksum", "md5")):
        with pytest.raises(UsageError) as caught:
            watched(text, option)
        assert caught.value.option == option
        assert caught.value.value == text
