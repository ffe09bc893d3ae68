"""The grammar of `--trigger`."""

from __future__ import annotations

import pytest

from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.configuration.triggers import TriggerCondition, TriggerSubject, trigger_conditions
from msmemscope.errors import UsageError


def triggered(text: str, option: str = "--trigger") -> Config:
    """The settings that follow from one option."""
    return with_options(Config(), [GivenOption(OPTION_BY_SPELLING[option], option, text)])


@pytest.mark.parametrize(
    "text, conditions",
    [
        ("rss>90%", [TriggerCondition("rss>90%", TriggerSubject.HOST, percent=90)]),
        ("rss > 20 GiB", [TriggerCondition("rss>20GiB", TriggerSubject.HOST, size_bytes=20 << 30)]),
        ("npu:0>60G", [TriggerCondition("npu:0>60G", TriggerSubject.DEVICE, "npu:0", size_bytes=60 << 30)]),
        ("cuda>95%", [TriggerCondition("cuda>95%", TriggerSubject.DEVICE, "cuda", percent=95)]),
        (
            "growth>1GiB/h",
            [TriggerCondition("growth>1GiB/h", TriggerSubject.GROWTH, size_bytes=1 << 30, within_s=3600)],
        ),
        ("step_time>1.5x", [TriggerCondition("step_time>1.5x", TriggerSubject.STEP_TIME, factor=1.5)]),
        (
            "oom|step_time>2x,oom\N{FULLWIDTH COMMA} rss>1%",
            [
                TriggerCondition("oom", TriggerSubject.FAILURE),
                TriggerCondition("step_time>2x", TriggerSubject.STEP_TIME, factor=2.0),
                TriggerCondition("rss>1%", TriggerSubject.HOST, percent=1),
            ],
        ),
        ("SIGUSR2", [TriggerCondition("SIGUSR2", TriggerSubject.SIGNAL)]),
        ("", []),
    ],
)
def test_accepted(text: str, conditions: list[TriggerCondition]) -> None:
    """Every form, and what the setting says when it is read back."""
    config = triggered(text)
    assert list(trigger_conditions(config.trigger)) == conditions
    assert Config.from_settings_text(config.to_settings_text()) == config


@pytest.mark.parametrize(
    "text, value, reason",
    [
        ("rss", "rss", "has no limit"),
        ("rss>", "rss>", "has no limit"),
        ("rss>0%", "rss>0%", "not a size"),
        ("rss>101%", "rss>101%", "not a size"),
        ("rss>0", "rss>0", "a limit of 0 is always passed"),
        ("memory>1G", "memory>1G", "looks at nothing that is known"),
        ("cpu>1G", "cpu>1G", "looks at nothing that is known"),
        ("npu:99>1G", "npu:99>1G", "looks at nothing that is known"),
        ("device>1G", "device>1G", "looks at nothing that is known"),
        ("step_time>1x", "step_time>1x", "not a multiple above 1"),
        ("step_time>2", "step_time>2", "not a multiple above 1"),
        ("growth>1G", "growth>1G", "not a size in a time"),
        ("growth>1G/week", "growth>1G/week", "not a size in a time"),
        ("oom|nonsense", "nonsense", "not a condition"),
        ("SIGTERM", "SIGTERM", "not a condition"),
        ("signal>1", "signal>1", "looks at nothing that is known"),
    ],
)
def test_refused(text: str, value: str, reason: str) -> None:
    """With the part that is wrong, and what is accepted."""
    with pytest.raises(UsageError) as caught:
        triggered(text)
    assert (caught.value.option, caught.value.value, caught.value.reason) == ("--trigger", value, reason)
    assert caught.value.accepted == OPTION_BY_SPELLING["--trigger"].accepted


def test_number_of_steps() -> None:
    """At least one."""
    assert triggered("25", "--trigger-steps").trigger_steps == 25
    for wrong in ("0", "-1", "ten", "1000001"):
        with pytest.raises(UsageError, match="not a number of steps"):
            triggered(wrong, "--trigger-steps")
