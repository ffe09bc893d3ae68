"""The contents and gaps of a recording, and their reasons: in sentences.

An absent kind of event has several possible reasons. One is that nothing happened. The others:

- The kind was not chosen.
- Collection never began.
- No chosen step came.
- The device was left out.
- A library could not be observed.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import CollectionItem, CollectMode, Level
from msmemscope.configuration.settings import WHOLE_NUMBER
from msmemscope.model.events import ACCESS_KINDS, EventKind
from msmemscope.model.sources import is_asked_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from msmemscope.formats.event_log import Capture
    from msmemscope.recording import Recording

_EVENT_LOG: Final = "event log"
_DUMPS: Final = ("csv", "db")


class Need(Enum):
    """The kinds of facts that questions are answered from; the value is the word for people."""

    ALLOCATIONS = "allocations"
    FREES = "frees"
    HOST_SAMPLES = "samples of host memory"
    OPERATORS = "operators"
    ACCESSES = "accesses"
    KERNELS = "launches of kernels"
    STACKS = "call stacks"
    ALL_STEPS = "all steps"
    STEPS = "steps"
    OWNERS = "owners"
    FAILURES = "failed allocations"


@dataclasses.dataclass(frozen=True)
class _Traits:
    """How a need is recognised, and the option that brings it."""

    kinds: frozenset[EventKind] = frozenset()
    item: CollectionItem | None = None
    level: Level | None = None
    option: str = ""
    """The option that records it."""
    sources: frozenset[str] = frozenset()
    """Where it comes from: a fact `unobserved.{source}` says that it is not complete."""


NO_STEPS: Final = (
    "steps: dumps have those of msmemscope.step() and mstx ranges alone, and this one has none; "
    "the event log also has those of optimizers and modules"
)

_TRAITS: Final[Mapping[Need, _Traits]] = {
    Need.ALLOCATIONS: _Traits(
        frozenset({EventKind.MALLOC}),
        CollectionItem.ALLOC,
        option="--events=alloc",
        sources=frozenset({"hal", "mstx", "torch_cpu", "torch_cuda", "cuda_driver"}),
    ),
    Need.FREES: _Traits(frozenset({EventKind.FREE}), CollectionItem.FREE, option="--events=free"),
    Need.HOST_SAMPLES: _Traits(
        frozenset({EventKind.HOST_SAMPLE, EventKind.HOST_MEMORY}), CollectionItem.ALLOC, option="--events=alloc"
    ),
    Need.OPERATORS: _Traits(
        frozenset({EventKind.ATEN_START, EventKind.ATB_START}),
        CollectionItem.LAUNCH,
        Level.OP,
        "--events=launch --level=op",
        frozenset({"torch_operators", "atb"}),
    ),
    Need.ACCESSES: _Traits(
        frozenset(ACCESS_KINDS),
        CollectionItem.ACCESS,
        option="--events=access",
        sources=frozenset({"torch_operators", "atb", "accesses"}),
    ),
    Need.KERNELS: _Traits(
        frozenset({EventKind.KERNEL_LAUNCH}),
        CollectionItem.LAUNCH,
        Level.KERNEL,
        "--events=launch --level=kernel",
        frozenset({"kernel_launch", "cuda_kernels"}),
    ),
    Need.STACKS: _Traits(option="--call-stack=python", sources=frozenset({"python_stacks"})),
    Need.ALL_STEPS: _Traits(),
    Need.STEPS: _Traits(
        frozenset({EventKind.STEP, EventKind.IMPLIED_STEP, EventKind.RANGE_START}), option="msmemscope.step()"
    ),
    Need.OWNERS: _Traits(sources=frozenset({"optimizer", "framework_hooks", "dcmi"})),
    Need.FAILURES: _Traits(sources=frozenset({"out_of_memory"})),
}


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The contents of a recording, and the settings that it was made with."""

    counts: Mapping[int, int]
    """Events by kind."""
    facts: Mapping[str, tuple[str, ...]]
    """As in `Recording.facts`."""
    form: str = _EVENT_LOG
    """As in `Recording.form`."""
    has_stacks: bool = True
    """Whether any event has a call stack."""
    damage: tuple[str, ...] = ()
    """The parts of an event log that had to be left out, one line each: events in them are not known."""

    @classmethod
    def of(cls, recording: Recording) -> Recorded:
        """Return the contents of a recording."""
        # A snapshot can have blocks that it has no event of.
        allocations = max(recording.kind_counts.get(EventKind.MALLOC, 0), recording.blocks.height)
        counts = {**recording.kind_counts, EventKind.MALLOC: allocations}
        damage = recording.problems if recording.form == _EVENT_LOG else ()
        return cls(counts, recording.facts, recording.form, recording.has_stacks, damage)

    @classmethod
    def of_capture(cls, capture: Capture) -> Recorded:
        """Return the contents of a capture, whatever is read into tables later."""
        return cls(capture.kind_counts(), capture.facts, damage=capture.problems)

    @property
    def is_event_log(self) -> bool:
        """Whether the settings are known, and not only their results."""
        return self.form == _EVENT_LOG

    def why_nothing(self) -> tuple[str, ...]:
        """Say why not a single event could be collected, one line each; nothing if some could."""
        return (*self._never_started(), *self._nothing_chosen(), *self._no_chosen_step())

    def steps_left_out(self) -> tuple[str, ...]:
        """Say that some steps are not here because of an option, in one line; nothing if all are."""
        line = "with --steps only some of the steps were collected"
        return (line,) if any(self._settings("steps")) else ()

    def why_missing(self, need: Need) -> tuple[str, ...]:
        """Say why a question has no answer for want of something, one line each; nothing if it is there."""
        damage = tuple(f"the event log is damaged, {line}" for line in self.damage[:1])
        if damage and (need in {Need.ALL_STEPS, Need.FREES} or not self._has(_TRAITS[need].kinds)):
            return damage  # it is not known which blocks were freed
        if need is Need.ALL_STEPS:
            return self.steps_left_out()
        if self._has(_TRAITS[need].kinds):
            return ()
        if not self._was_chosen(need):
            return self._lacks(need)
        return (*self._devices(), *self.unobserved(need), f"no {need.value} were recorded")

    def limits(self) -> tuple[str, ...]:
        """Say what a recording as a whole leaves out, whatever is asked of it, one line each."""
        return (*self._stretches(), *self._devices())

    def chosen_steps(self) -> tuple[str, ...]:
        """Name the collected steps, and the chosen ones that did not come; nothing if all were collected."""
        chosen, ended, begun = self._steps()
        came = [step for step in chosen if step <= begun]
        if not came:
            return ()
        named = f"step {came[0]} was" if len(came) == 1 else f"steps {_listed(came)} were"
        lines = [f"only {named} collected (--steps)"]
        lines.extend(f"step {step} did not end" for step in came if step > ended)
        if len(came) < len(chosen):
            lines.append(_did_not_happen([step for step in chosen if step > begun], ended))
        return tuple(lines)

    def not_chosen(self, need: Need) -> tuple[str, ...]:
        """Say that something is not there because it was not recorded; nothing if it only did not happen."""
        return () if self._was_chosen(need) else self._lacks(need)

    def for_a_part(self, need: Need) -> tuple[str, ...]:
        """Say that something was recorded for a part of the time, because the setting was changed."""
        item, values = _TRAITS[need].item, set(self._settings("events"))
        having = [value for value in values if item is not None and item.value in value.split(",")]
        if not having or len(having) == len(values):
            return ()
        return (f"{need.value} were recorded for a part of the run only: the program changed --events",)

    def unobserved(self, need: Need) -> tuple[str, ...]:
        """Name the sources that were to be observed and could not be."""
        devices = self._settings("devices")
        return tuple(
            f"{source} was not observed: {reasons[-1]}"
            for source in sorted(_TRAITS[need].sources)
            if (reasons := self.facts.get(f"unobserved.{source}", ()))
            and is_asked_for(source, devices[-1] if devices else "")
        )

    def _has(self, kinds: Collection[EventKind]) -> bool:
        return any(self.counts.get(kind, 0) for kind in kinds)

    def _settings(self, name: str) -> tuple[str, ...]:
        """The values of a setting over time, the last one in force; none if they are not known."""
        return self.facts.get(f"setting.{name}", ())

    def _was_chosen(self, need: Need) -> bool:
        """Whether the settings wanted something at any time; not known of dumps, which do not have the settings."""
        traits = _TRAITS[need]
        if not traits.option:
            return True
        if not self.is_event_log:
            return False
        if need is Need.STACKS:
            depths = (*self._settings("python_stack_depth"), *self._settings("native_stack_depth"))
            return not depths or any(depth != "0" for depth in depths)
        wanted = (("events", traits.item), ("level", traits.level))
        return all(member is None or self._lists(name, member.value) for name, member in wanted)

    def _lists(self, name: str, word: str) -> bool:
        values = self._settings(name)
        return not values or any(word in value.split(",") for value in values)

    def _lacks(self, need: Need) -> tuple[str, ...]:
        traits = _TRAITS[need]
        if need is Need.STEPS:
            return (NO_STEPS,) if self.form in _DUMPS and not self._has(traits.kinds) else ()
        if self.has_stacks if need is Need.STACKS else self._has(traits.kinds):
            return ()
        if self.is_event_log:
            return (f"{need.value} were not recorded ({traits.option} records them)",)
        if self.form in _DUMPS:
            return (f"this dump has no {need.value} ({traits.option} records them)",)
        return (f"a {self.form} has no {need.value}",)

    def _never_started(self) -> Iterator[str]:
        modes = self._settings("collect_mode")
        if (
            modes
            and modes[-1] == CollectMode.DEFERRED.value
            and not self._has({EventKind.START_TRACE, EventKind.STOP_TRACE})
        ):
            yield "collection waited for msmemscope.start(), which was never called"

    def _nothing_chosen(self) -> Iterator[str]:
        values = self._settings("events")
        if values and not any(values):
            yield "--events= selects nothing"

    def _no_chosen_step(self) -> Iterator[str]:
        chosen, ended, begun = self._steps()
        if chosen and all(step > begun for step in chosen):
            yield _did_not_happen(chosen, ended)

    def _steps(self) -> tuple[list[int], int, int]:
        """The chosen steps, how many have ended, and how many have begun; no chosen ones if the others are not known."""
        values = self._settings("steps")
        words = values[-1].split(",") if values else []
        chosen = [int(word) for word in words if WHOLE_NUMBER.fullmatch(word)]
        ended, begun = (self._highest(f"steps.{name}") for name in ("ended", "begun"))
        if ended is None or begun is None:
            # The end of the process was not seen, but every call of msmemscope.step() is an event.
            ended = self.counts.get(EventKind.STEP, 0)
            begun = ended + 1
            if not ended:
                return [], 0, 0
        return chosen, ended, begun

    def _highest(self, fact: str) -> int | None:
        values = self.facts.get(fact, ())
        return max((int(value) for value in values if WHOLE_NUMBER.fullmatch(value)), default=None)

    def _stretches(self) -> Iterator[str]:
        modes = self._settings("collect_mode")
        # Where the command line has begun at once, start() begins nothing.
        from_the_start = bool(modes) and modes[-1] == CollectMode.IMMEDIATE.value
        if self._has({EventKind.STOP_TRACE}) or (self._has({EventKind.START_TRACE}) and not from_the_start):
            yield (
                "collection was on for a part of the run only (msmemscope.start() and stop()): memory that came and "
                "went outside of it is not here"
            )

    def devices_left_out(self) -> tuple[list[str], str]:
        """Return the devices that the program used and the option `--device` left out, and that option."""
        chosen = self._settings("devices")
        return sorted(set(self.facts.get("unobserved_device", ()))), f"--device={chosen[-1]}" if chosen else "--device"

    def _devices(self) -> Iterator[str]:
        used, option = self.devices_left_out()
        if used:
            yield f"{', '.join(used)} {'was' if len(used) == 1 else 'were'} used, which {option} leaves out"


def _did_not_happen(steps: Sequence[int], ended: int) -> str:
    before = {0: "no step ended", 1: "step 1 ended"}.get(ended, f"steps 1 to {ended} ended")
    return f"{before}, --steps={_listed(steps, ',')} did not happen"


def _listed(steps: Sequence[int], separator: str = ", ") -> str:
    return separator.join(map(str, steps))
