"""The subjects that were not judged of a process, and why: nothing can be ruled out that nobody looked for.

A summary may say that nothing was found only after a search for leaks, growth and failed allocations. The search must
cover every device that the program used. Otherwise the summary names the gap, with the one remedy.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.recorded import Need
from msmemscope.model.devices import CPU_WORD, KIND_NAMES, DeviceKind
from msmemscope.model.sources import DEVICE_SOURCES
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.recorded import Recorded

LEAKS: Final = "leaks"
GROWTH: Final = "growth"
FAILURES: Final = "failed allocations"
OBSERVE_CPU: Final = "--device=cpu observes CPU tensors"
_NPU: Final = "npu"


@dataclasses.dataclass(frozen=True)
class NotJudged:
    """One thing that a summary cannot say anything about."""

    subject: str
    """LEAKS, GROWTH, FAILURES; of a device that was not observed, its name."""
    reason: str
    remedy: str = ""
    """The remedy, as a phrase; empty where the reason says it."""
    is_device: bool = False

    @property
    def sentence(self) -> str:
        """The whole of it: `leaks not judged: no steps were seen (call msmemscope.step() after each)`."""
        verb = "not observed" if self.is_device else "not judged"
        return f"{self.subject} {verb}: {self.reason}{f' ({self.remedy})' if self.remedy else ''}"


def together(some: Iterable[NotJudged]) -> tuple[NotJudged, ...]:
    """Return the same with one for each reason: `leaks and failed allocations not judged: ...`."""
    by_reason: dict[NotJudged, list[str]] = {}
    for one in some:
        by_reason.setdefault(dataclasses.replace(one, subject=""), []).append(one.subject)
    return tuple(
        dataclasses.replace(one, subject=" and ".join(dict.fromkeys(subjects))) for one, subjects in by_reason.items()
    )


def leaks_not_judged(found: LeakOverview) -> tuple[NotJudged, ...]:
    """Say what an answer about leaks does not judge; nothing if it judges leaks and growth.

    Args:
        found: The answer.
    """
    if not found.coverage.is_answered:
        return tuple(NotJudged(LEAKS, line) for line in found.coverage.missing)
    return (*(() if found.is_of_host_alone else _of_tensors(found)), *_of_host_memory(found))


def _of_host_memory(found: LeakOverview) -> Iterator[NotJudged]:
    if found.is_of_host_alone and found.host_growth is None:
        yield NotJudged(LEAKS, "too few samples of host memory were taken")
    if found.host_growth is not None and found.host_growth.unexplained_bytes:
        rise = format_bytes(found.host_growth.unexplained_bytes)
        yield NotJudged(
            GROWTH,
            f"host memory rose by {rise} over the run, and sampled allocations explain little of it: pages of a file that is "
            "mapped copy-on-write, for example",
        )
    if found.host_rise is not None:
        yield NotJudged(GROWTH, found.host_rise.reason)


def _of_tensors(found: LeakOverview) -> tuple[NotJudged, ...]:
    ended = found.step_leaks.steps_ended
    if not found.step_leaks.remarks:
        if not found.slow_leaks.remarks or found.is_growth_ruled_out:
            return ()
        return (NotJudged(GROWTH, found.slow_leaks.remarks[0].reason),)
    if not found.slow_leaks.remarks or found.is_growth_ruled_out:
        return ()  # by parts of the run
    if ended == 0:
        return (NotJudged(LEAKS, "no steps were seen", "call msmemscope.step() after each"),)
    return (NotJudged(LEAKS, found.step_leaks.remarks[0].reason),)


def failures_not_judged(recorded: Recorded) -> tuple[NotJudged, ...]:
    """Say why failed allocations were not seen; nothing if they would have been."""
    lines = recorded.why_nothing()
    if not lines:
        lines = tuple(f"the event log is damaged, {line}" for line in recorded.damage[:1])
    if not lines and recorded.is_event_log:
        # They are recorded where allocations are.
        lines = (
            *recorded.not_chosen(Need.ALLOCATIONS),
            *recorded.unobserved(Need.FAILURES),
            *recorded.steps_left_out(),
        )
    return tuple(NotJudged(FAILURES, line) for line in lines)


def devices_not_observed(recorded: Recorded) -> tuple[NotJudged, ...]:
    """Say which devices were used, or asked for, and not observed."""
    asked = recorded.facts.get("setting.devices", ("",))[-1].split(",")
    return (*_left_out(recorded), *_not_there(recorded, asked), *_in_part(recorded), *kinds_not_recorded(asked))


def kinds_not_recorded(asked: Iterable[str]) -> Iterator[NotJudged]:
    """Name the devices whose blocks nobody records while a program runs.

    Args:
        asked: Names of devices and kinds, `cuda:1`.
    """
    for kind, names in KIND_NAMES.items():
        wanted = [device for device in asked if device.partition(":")[0] == names.word]
        if wanted and kind not in DEVICE_SOURCES:
            reason = "allocations are not recorded while a program runs, snapshots and failed allocations are"
            yield NotJudged(", ".join(wanted), reason, is_device=True)


def kinds_not_loaded(asked: Iterable[str], sources: Collection[str]) -> Iterator[NotJudged]:
    """Name the kinds of devices that are to be observed, and that the program cannot have used.

    CUDA devices are observed by default where there are any, beside the cpu: then a program need not use them.

    Args:
        asked: Names of devices and kinds, `cuda:1`.
        sources: Those that observed something.
    """
    asked = list(asked)
    for kind, of_kind in DEVICE_SOURCES.items():
        names = KIND_NAMES[kind]
        wanted = [device for device in asked if device.partition(":")[0] == names.word]
        is_by_default = kind is DeviceKind.CUDA and CPU_WORD in asked
        if wanted and not is_by_default and not of_kind.intersection(sources):
            reason = f"the program loaded no library of {names.runtime}"
            yield NotJudged(", ".join(wanted), reason, OBSERVE_CPU, is_device=True)


def _left_out(recorded: Recorded) -> Iterator[NotJudged]:
    devices, option = recorded.devices_left_out()
    if devices:
        yield NotJudged(
            ", ".join(devices), f"{option} leaves {'it' if len(devices) == 1 else 'them'} out", is_device=True
        )


def _not_there(recorded: Recorded, asked: Iterable[str]) -> Iterator[NotJudged]:
    if recorded.is_event_log:
        prefix = "observed."
        sources = {fact.removeprefix(prefix) for fact in recorded.facts if fact.startswith(prefix)}
        yield from kinds_not_loaded(asked, sources)


def _in_part(recorded: Recorded) -> Iterator[NotJudged]:
    if "unobserved.pta" in recorded.facts and "observed.ptaCaching" not in recorded.facts:
        reason = "torch_npu had set up its memory pool before msmemscope was there"
        yield NotJudged(_NPU, reason, "import msmemscope before the first NPU tensor", is_device=True)
