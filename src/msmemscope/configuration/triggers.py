"""The value of `--trigger`: conditions under which details of the next steps are recorded."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any, Final

from msmemscope.configuration.settings import WHOLE_NUMBER, is_device
from msmemscope.errors import UsageError
from msmemscope.model.devices import CPU_WORD
from msmemscope.units import parse_size_bytes

MAXIMUM_TRIGGER_STEPS: Final = 1_000_000
TRIGGER_FIRED_FACT: Final = "trigger.fired"
"""Key of the facts of conditions that held: the condition, the step, the figure."""

# Texts, not compiled: most programs have no trigger, and all import this.
_SEPARATORS: Final = "[|,\N{FULLWIDTH COMMA}]"
_PERCENT: Final = "(100|[1-9][0-9]?)%"
_FACTOR: Final = r"([1-9][0-9]{0,3}(?:\.[0-9]{1,3})?)x"
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_SIGNALS: Final = ("SIGUSR1", "SIGUSR2")
_HINT: Final = "a shell needs quotes around it: --trigger='rss>90%|npu:0>60GiB'"


class TriggerSubject(str, enum.Enum):
    """The figure that a condition looks at."""

    HOST = "rss"
    """Resident memory of the process; as a percentage, what its control group or machine has in use."""
    DEVICE = "device"
    """Memory of a device that the process has; as a percentage, what anybody has in use of the device."""
    GROWTH = "growth"
    """How much either of them has grown within a time."""
    FAILURE = "oom"
    """An allocation failed for lack of memory."""
    STEP_TIME = "step_time"
    """How long a step took, as a multiple of the steps before."""
    SIGNAL = "signal"
    """Somebody sent a signal to the process."""


@dataclasses.dataclass(frozen=True)
class TriggerCondition:
    """One condition. The limit is in bytes or in percent; of the time of steps it is a factor."""

    text: str
    """As it was written, without blanks."""
    subject: TriggerSubject
    device: str = ""
    """`npu`, `npu:0`; only of devices."""
    size_bytes: int = 0
    percent: int = 0
    within_s: int = 0
    factor: float = 0.0


def parse_trigger(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read `--trigger`; an empty value sets none."""
    words = [word.strip() for word in re.split(_SEPARATORS, text) if word.strip()]
    conditions = [_condition(accepted, spelling, word) for word in words]
    return {"trigger": "|".join(dict.fromkeys(condition.text for condition in conditions))}


def parse_trigger_steps(accepted: str, spelling: str, text: str) -> dict[str, Any]:
    """Read of how many steps details are recorded."""
    if not WHOLE_NUMBER.fullmatch(text) or not 1 <= int(text) <= MAXIMUM_TRIGGER_STEPS:
        message = "not a number of steps"
        raise UsageError(message, option=spelling, value=text, accepted=accepted)
    return {"trigger_steps": int(text)}


def trigger_conditions(setting: str) -> tuple[TriggerCondition, ...]:
    """Return the conditions of the setting that `parse_trigger` made.

    Raises:
        UsageError: If it is another text.
    """
    return tuple(_condition("", "trigger", word) for word in setting.split("|") if word)


def _condition(accepted: str, spelling: str, word: str) -> TriggerCondition:
    def refuse(message: str, hint: str | None = None) -> UsageError:
        return UsageError(message, option=spelling, value=word, accepted=accepted, hint=hint)

    text = "".join(word.split())
    if text == TriggerSubject.FAILURE.value:
        return TriggerCondition(text, TriggerSubject.FAILURE)
    if text in _SIGNALS:
        return TriggerCondition(text, TriggerSubject.SIGNAL)
    subject, above, limit = text.partition(">")
    if not above or not limit:
        message = "has no limit" if _is_subject(subject) else "not a condition"
        raise refuse(message, _HINT)
    if subject == TriggerSubject.STEP_TIME.value:
        factor = re.fullmatch(_FACTOR, limit)
        if factor is None or float(factor[1]) <= 1:
            message = "not a multiple above 1"
            raise refuse(message, "step_time>2x: the step took twice as long as the steps before")
        return TriggerCondition(text, TriggerSubject.STEP_TIME, factor=float(factor[1]))
    if subject == TriggerSubject.GROWTH.value:
        size, slash, unit = limit.rpartition("/")
        if not slash or unit not in _SECONDS:
            message = "not a size in a time"
            raise refuse(message, f"growth>1GiB/h; times are {', '.join(_SECONDS)}")
        size_bytes = _size(size, refuse)
        return TriggerCondition(text, TriggerSubject.GROWTH, size_bytes=size_bytes, within_s=_SECONDS[unit])
    if not _is_subject(subject):
        message = "looks at nothing that is known"
        raise refuse(message)
    is_host = subject == TriggerSubject.HOST.value
    kind = TriggerSubject.HOST if is_host else TriggerSubject.DEVICE
    device = "" if is_host else subject
    if percent := re.fullmatch(_PERCENT, limit):
        return TriggerCondition(text, kind, device, percent=int(percent[1]))
    return TriggerCondition(text, kind, device, size_bytes=_size(limit, refuse))


def _is_subject(word: str) -> bool:
    is_accelerator = is_device(word) and word != CPU_WORD
    no_words = (TriggerSubject.DEVICE, TriggerSubject.SIGNAL)
    return is_accelerator or word in {one.value for one in TriggerSubject if one not in no_words}


def _size(text: str, refuse: Any) -> int:
    try:
        size_bytes = parse_size_bytes(text, option="")
    except UsageError as error:
        raise refuse(error.reason, "90% or 60GiB") from error
    if size_bytes == 0:
        message = "a limit of 0 is always passed"
        raise refuse(message)
    return size_bytes
