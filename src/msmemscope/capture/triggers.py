"""Conditions of `--trigger`: looked at where steps end; once one holds, details of the next steps are recorded.

A program without steps is looked at about once a second, while it allocates or frees. Details are recorded for a minute
then.

A look at the time of a step costs nothing that counts. The other figures are asked for once per tenth of a second at
most: torch and the kernel take microseconds for each. Once a condition held, an hour passes without a look.

A signal takes effect at once, as often as it comes.
"""

from __future__ import annotations

import _thread
import dataclasses
import functools
import os
from collections import deque
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Final, Protocol

from msmemscope import _native
from msmemscope.capture.awaited_signals import await_signal
from msmemscope.capture.device_figures import accelerators_of_process
from msmemscope.capture.growing_containers import begin_in_process
from msmemscope.capture.import_hook import ImportLock
from msmemscope.capture.snapshot_records import record_snapshot
from msmemscope.configuration import CollectionItem, HostSampling, Level
from msmemscope.configuration.settings import DEFAULT_STACK_DEPTH
from msmemscope.configuration.triggers import (
    TRIGGER_FIRED_FACT,
    TriggerCondition,
    TriggerSubject,
    trigger_conditions,
)
from msmemscope.model.devices import device_name
from msmemscope.model.pools import Pool
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msmemscope.configuration import Config

_PAUSE_NS: Final = 3600 * 10**9
_LOOK_NS: Final = 100_000_000
_WARM_UP_STEPS: Final = 3
"""In which memory grows, and steps take long, in every program."""
_JUDGED_STEPS: Final = 8
"""Steps before that the time of a step is compared with, at least."""
_KEPT_STEPS: Final = 64
_KEPT_FIGURES: Final = 64
"""Of each kind, within the time of a condition about growth."""
_NATIVE_DEPTH: Final = 30
_WITHOUT_STEPS_S: Final = 60
"""How long details are recorded if no step ends."""
_WARM_UP_NS: Final = 30 * 10**9
"""Of a program without steps."""
_MOST_STEPS_LATE: Final = 3
"""A step that takes so many times as long as any before it does not come."""
_GRAPH_PAUSE_S: Final = 0.05
_DETAILS: Final = frozenset({CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.LAUNCH, CollectionItem.ACCESS})


class Figures(Protocol):
    """Figures of memory now, in bytes."""

    def resident(self) -> int:
        """Of the process."""

    def host(self) -> tuple[int, int]:
        """In use and at most, of the control group, or of the machine where the group has no limit."""

    def devices(self) -> list[tuple[str, int, int, int]]:
        """The devices that the process uses: name, what the process has, what is in use by anybody, total."""


class ProcessFigures:
    """The figures of this process."""

    def resident(self) -> int:
        """Of the process."""
        return _native.host_memory()[0]

    def host(self) -> tuple[int, int]:
        """In use and at most, of the control group, or of the machine where the group has no limit."""
        resident, used, limit = _native.host_memory()
        return (used, limit) if limit else (resident, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

    def devices(self) -> list[tuple[str, int, int, int]]:
        """The devices that the process uses: name, what the process has, what is in use by anybody, total."""
        accelerators = accelerators_of_process()
        if accelerators is None or not accelerators.is_initialised():
            return []
        found = []
        for device in range(accelerators.count()):
            if accelerators.is_used(device):
                number = accelerators.driver_number(device)
                figures = accelerators.figures(device)
                # The driver knows of more than torch's allocator: of libraries that allocate by themselves.
                held = max(_native.live_bytes(Pool.HAL, number), figures.get("reserved", 0))
                total = figures.get("total", 0)
                found.append((device_name(number), held, total - figures.get("free", total), total))
        return found


class _Growth:
    """The least figures of each memory within the time of a condition."""

    def __init__(self, condition: TriggerCondition) -> None:
        self._limit_bytes = condition.size_bytes
        self._within_ns = condition.within_s * 10**9
        self._kept: dict[str, deque[tuple[int, int]]] = {}

    def grown(self, name: str, size_bytes: int, now_ns: int) -> int:
        """By how many bytes the memory has grown within the time; 0 where that is no more than the limit."""
        kept = self._kept.setdefault(name, deque())
        while kept and now_ns - kept[0][0] > self._within_ns:
            kept.popleft()
        grown = size_bytes - min((size for _, size in kept), default=size_bytes)
        if not kept or now_ns - kept[-1][0] >= self._within_ns // _KEPT_FIGURES:
            kept.append((now_ns, size_bytes))
        elif size_bytes < kept[-1][1]:
            kept[-1] = (kept[-1][0], size_bytes)
        return grown if grown > self._limit_bytes else 0


class Triggers:
    """The conditions of one process.

    Args:
        setting: As `parse_trigger` makes it.
        steps: Of how many steps details are recorded.
        fired: Called with True where details are to be recorded from now on, with False where no longer. It returns at
            once: a change takes effect somewhat later.
        figures: Of memory.
        clock: Nanoseconds.
    """

    def __init__(
        self,
        setting: str,
        steps: int,
        fired: Callable[[bool], None],
        figures: Figures | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.setting = setting
        self._conditions = trigger_conditions(setting)
        self._detailed_steps = steps
        self._fired = fired
        self._figures: Figures = ProcessFigures() if figures is None else figures
        self._clock = clock
        self._growth = {one: _Growth(one) for one in self._conditions if one.subject is TriggerSubject.GROWTH}
        self._times_ns: deque[int] = deque(maxlen=_KEPT_STEPS)
        self._ended_ns = 0
        self._steps = 0
        self._last_detailed = 0
        self._rests_until_ns = 0
        self._next_look_ns = 0
        self._began_ns = clock()
        self._failures = _native.failed_allocations()

    def await_signals(self, current: Callable[[], Config]) -> None:
        """Record details when one of the signals arrives.

        Args:
            current: Returns the settings in force.
        """
        for one in self._conditions:
            if one.subject is TriggerSubject.SIGNAL:
                await_signal(one.text, functools.partial(self._asked, one, current))

    def _asked(self, condition: TriggerCondition, current: Callable[[], Config]) -> None:
        self._begin_answer(condition, current, "it arrived")

    def _begin_answer(self, condition: TriggerCondition, current: Callable[[], Config], figure: str) -> None:
        # The program may have been interrupted anywhere: what takes a lock happens in another thread.
        try:
            _thread.start_new_thread(self._answer, (condition, current, figure))
        except RuntimeError as error:  # no more threads, or the interpreter ends
            _native.warn(f"--trigger: {condition.text} has no effect: {error}")

    def time_has_passed(self, current: Callable[[], Config]) -> None:
        """A second has passed, in the main thread; never raises. Where steps end, they say more.

        Args:
            current: Returns the settings in force.
        """
        try:
            now_ns = self._clock()
            if self._steps or self._last_detailed or now_ns < self._rests_until_ns or not _native.devices_can_be_read():
                return
            found = next(self._holding(0, now_ns), None)
            if found is not None:
                self._rests_until_ns = now_ns + _PAUSE_NS
                self._begin_answer(found[0], current, found[1])
        except Exception as error:  # noqa: BLE001 - the program goes on
            self._rests_until_ns = self._clock() + _PAUSE_NS
            _native.note_fact("unobserved.triggers", f"{type(error).__name__}: {error}")

    def _answer(self, condition: TriggerCondition, current: Callable[[], Config], figure: str) -> None:
        try:
            config = current()
            if self._last_detailed or config.trigger != self.setting:
                return
            # While a graph is captured, a question to the driver could spoil it.
            while not _native.devices_can_be_read():
                sleep(_GRAPH_PAUSE_S)
            steps = self._steps
            self._fire(config, condition, figure)
            while True:
                sleep(max(_WITHOUT_STEPS_S, _MOST_STEPS_LATE * max(self._times_ns, default=0) / 1e9))
                if not self._last_detailed or steps == self._steps:
                    break
                steps = self._steps
            if self._last_detailed:
                self._last_detailed = 0
                self._fired(False)
        except Exception as error:  # noqa: BLE001 - the program goes on
            _native.warn(f"--trigger: details are not recorded: {type(error).__name__}: {error}")

    def step_ended(self, config: Config) -> None:
        """A step has ended; never raises."""
        try:
            self._steps += 1
            now_ns = self._clock()
            took_ns, self._ended_ns = now_ns - self._ended_ns, now_ns
            if self._last_detailed:
                if self._steps >= self._last_detailed:
                    self._last_detailed = 0
                    self._fired(False)
                return
            # While a graph is captured, a question to the driver could spoil it.
            if now_ns < self._rests_until_ns or not _native.devices_can_be_read():
                return
            found = next(self._holding(took_ns, now_ns), None)
            if self._steps > _WARM_UP_STEPS:
                self._times_ns.append(took_ns)
            if found is not None:
                self._fire(config, *found)
        except Exception as error:  # noqa: BLE001 - the step of the program was done, and must be seen as done
            self._rests_until_ns = self._clock() + _PAUSE_NS
            _native.note_fact("unobserved.triggers", f"{type(error).__name__}: {error}")

    def _fire(self, config: Config, condition: TriggerCondition, figure: str) -> None:
        is_signal = condition.subject is TriggerSubject.SIGNAL
        if not is_signal:
            self._rests_until_ns = self._clock() + _PAUSE_NS
        self._last_detailed = self._steps + self._detailed_steps
        record_snapshot(config, f"trigger {condition.text}")
        place = f"in step {self._steps + is_signal}" if self._steps else "before a step ended"
        _native.note_fact(TRIGGER_FIRED_FACT, f"{condition.text} {place} ({figure})")
        self._fired(True)

    def _holding(self, took_ns: int, now_ns: int) -> Iterator[tuple[TriggerCondition, str]]:
        """Conditions that hold, each with its figure in words."""
        failures = _native.failed_allocations()
        is_due = now_ns >= self._next_look_ns
        if is_due:
            self._next_look_ns = now_ns + _LOOK_NS
        for condition in self._conditions:
            if condition.subject is TriggerSubject.FAILURE:
                if failures > self._failures:
                    yield condition, "an allocation failed"
            elif condition.subject is TriggerSubject.STEP_TIME:
                if len(self._times_ns) >= _JUDGED_STEPS:
                    usual_ns = sorted(self._times_ns)[len(self._times_ns) // 2]
                    if took_ns > condition.factor * usual_ns:
                        yield condition, f"{took_ns / 1e6:.1f} ms, {usual_ns / 1e6:.1f} ms in the steps before"
            elif is_due and condition.subject is not TriggerSubject.SIGNAL:
                yield from ((condition, figure) for figure in self._of_memory(condition, now_ns))
        self._failures = failures

    def _of_memory(self, condition: TriggerCondition, now_ns: int) -> Iterator[str]:
        if condition.subject is TriggerSubject.GROWTH:
            is_warm = self._steps >= _WARM_UP_STEPS if self._steps else now_ns - self._began_ns >= _WARM_UP_NS
            if is_warm:
                memories = [("host memory", self._figures.resident())]
                memories += [(name, held) for name, held, _, _ in self._figures.devices()]
                for name, size_bytes in memories:
                    if grown := self._growth[condition].grown(name, size_bytes, now_ns):
                        yield f"{name} grew by {format_bytes(grown)}"
        elif condition.subject is TriggerSubject.HOST:
            if condition.percent:
                used, most = self._figures.host()
                if most and used * 100 > condition.percent * most:
                    yield f"{format_bytes(used)} of {format_bytes(most)}"
            elif (resident := self._figures.resident()) > condition.size_bytes:
                yield format_bytes(resident)
        else:
            for name, held, used, total in self._figures.devices():
                if condition.device not in {name, name.partition(":")[0]}:
                    continue
                if condition.percent:
                    if total and used * 100 > condition.percent * total:
                        yield f"{format_bytes(used)} of {format_bytes(total)} of {name}"
                elif held > condition.size_bytes:
                    yield f"{format_bytes(held)} on {name}"


def with_details(config: Config) -> Config:
    """Return settings that record accesses, operators and both call stacks besides."""
    return dataclasses.replace(
        config,
        events=config.events | _DETAILS,
        unwritten=config.unwritten - _DETAILS,
        level=config.level | {Level.OP},
        python_stack=True,
        python_stack_depth=config.python_stack_depth or DEFAULT_STACK_DEPTH,
        native_stack=True,
        native_stack_depth=config.native_stack_depth or _NATIVE_DEPTH,
    )


class DetailsForAWhile:
    """Switches details on and off.

    Both happen in a thread of their own, as an order of `msmemscope control` does. Where a step ends, torch may be
    walking through the hooks that a change takes away.

    Args:
        exchange: Takes settings that are expected in force and new ones. Puts the new ones in force, and does nothing
            if others are there.
        current: Returns the settings in force.
    """

    def __init__(self, exchange: Callable[[Config, Config], None], current: Callable[[], Config]) -> None:
        self._exchange = exchange
        self._current = current
        self._before: Config | None = None

    def __call__(self, wanted: bool) -> None:  # noqa: FBT001 - the only argument
        """Have details recorded, or no longer."""
        _thread.start_new_thread(self._change, (wanted,))

    def _change(self, wanted: bool) -> None:  # noqa: FBT001 - as above
        try:
            with ImportLock("torch"):
                if wanted:
                    self._before = self._current()
                    self._exchange(self._before, with_details(self._before))
                elif self._before is not None:
                    self._exchange(with_details(self._before), self._before)
        except Exception as error:  # noqa: BLE001 - the program goes on
            _native.warn(f"--trigger: details are not recorded: {type(error).__name__}: {error}")


def triggers_of(
    config: Config, exchange: Callable[[Config, Config], None], current: Callable[[], Config]
) -> Triggers | None:
    """Return the conditions of some settings; None where there are none. Arguments as for `DetailsForAWhile`."""
    if not config.trigger:
        return None
    triggers = Triggers(config.trigger, config.trigger_steps, DetailsForAWhile(exchange, current))
    triggers.await_signals(current)
    looks = begin_in_process(lambda: 0 if current().host is HostSampling.OFF else current().holder_time)
    looks.check_every_second(functools.partial(triggers.time_has_passed, current))
    return triggers


_OF_PROGRAM_THREADS: Final = (Triggers.step_ended, Triggers._fire, Triggers._asked, Triggers.time_has_passed)  # noqa: SLF001
_native.hide_code(tuple(function.__code__ for function in (*_OF_PROGRAM_THREADS, record_snapshot)))
