"""The session of the Python API: `config()`, `start()`, `step()` and `stop()`.

There is one session per process. Under the launcher it begins by itself (`begin_launched`). Then `start()` and `stop()`
choose what is collected. Without the launcher, `start()` brings the default settings.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.attach import was_not_chosen
from msmemscope.capture.import_hook import ImportLock
from msmemscope.capture.place import place_notes
from msmemscope.capture.settings_in_force import note_changes, use_settings
from msmemscope.capture.settings_once import SettingsOnce
from msmemscope.capture.worker_ends import at_end_of_workers
from msmemscope.configuration import (
    SETTINGS_VARIABLE,
    Analysis,
    CollectionItem,
    CollectMode,
    Config,
    HostSampling,
    Level,
    new_session,
    with_keywords,
)
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.capture.function_trace import FunctionTrace
    from msmemscope.capture.growing_containers import ContainerLooks
    from msmemscope.capture.holders import HolderSearches
    from msmemscope.capture.implied_steps import ImpliedSteps
    from msmemscope.capture.operators import OperatorCollector
    from msmemscope.capture.optimizer_labels import OptimizerLabels
    from msmemscope.capture.triggers import Triggers

_OPERATOR_ITEMS = frozenset({CollectionItem.LAUNCH, CollectionItem.ACCESS})
_BLOCK_ITEMS = frozenset({CollectionItem.ALLOC, CollectionItem.FREE})
_STEP_ANALYSES = frozenset({Analysis.LEAKS, Analysis.DECOMPOSE})
"""Analyses that ask what outlives a step."""


class Session:
    """The collection of this process: what is collected, and whether that happens now.

    Its methods may be called from any thread; each waits for the one that runs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # A thread that holds the lock while another one forks is not there to release it in the child.
        os.register_at_fork(after_in_child=self._renew_in_child)
        self._config: Config | None = None
        self._defaults: Config | None = None
        self._first_keywords: dict[str, Any] = {}
        self._is_launched = False
        self._has_begun = False
        self._is_tracing = False
        self._start_is_recorded = False
        self._was_stopped = False
        self._is_left_out = False
        self._awaits_start = False
        self._settings_once = SettingsOnce()
        self.writes_results = True
        """Whether results are written when a process ends that no launcher waits for."""
        self._operators: OperatorCollector | None = None
        self._watches_memory = False
        self._optimizer_labels: OptimizerLabels | None = None
        self._function_trace: FunctionTrace | None = None
        self._implied_steps: ImpliedSteps | None = None
        self._holders: HolderSearches | None = None
        self._containers: ContainerLooks | None = None
        self._triggers: Triggers | None = None

    def _renew_in_child(self) -> None:
        self._lock = threading.RLock()
        self._awaits_start = False  # its parent says so
        if self._holders is not None:
            self._holders.begin_anew()

    @property
    def config(self) -> Config:
        """The settings in force; the first access decides where they come from."""
        if self._config is None:
            self._config = self._settle_config()
        return self._config

    @property
    def is_tracing(self) -> bool:
        """Whether collection is on; a choice of steps may still leave the running one out."""
        return self._is_tracing

    @property
    def records_marks(self) -> bool:
        """Whether the program's own marks are wanted: not while collection waits for `start()`, nor after its end."""
        self.begin_launched()
        return self._is_tracing or not (self._is_launched or self._was_stopped)

    @property
    def awaits_start(self) -> bool:
        """Whether the program has chosen what to collect, and has not begun to."""
        return self._awaits_start

    def why_not_collecting(self) -> str | None:
        """Why nothing is recorded now and until the program does something about it; None if it is."""
        self.begin_launched()
        if self._is_left_out:
            return "this rank is none of those that are observed (--ranks, --sample-ranks)"
        if not self.config.events:
            return "--events= selects nothing"
        return None if self._is_tracing else "collection is off until msmemscope.start() is called"

    def leaves_this_rank_out(self) -> bool:
        """Whether the launcher observes certain ranks only, and this process has another one."""
        self.begin_launched()
        return self._is_left_out

    def _settle_config(self) -> Config:
        inherited = os.environ.get(SETTINGS_VARIABLE)
        if inherited is not None:
            self._is_launched = True
            config = Config.from_settings_text(inherited)
            if was_not_chosen(inherited):
                self._is_left_out = True
                return dataclasses.replace(config, events=frozenset(), unwritten=frozenset())
            self._defaults = config
        else:
            self._defaults = Config(session=new_session(), collect_mode=CollectMode.DEFERRED)
            # Hooks are installed with the settings that the program chooses: what the defaults leave out is not noted.
            chosen = with_keywords(self._defaults, self._first_keywords)
            config = dataclasses.replace(chosen, collect_mode=CollectMode.DEFERRED)
            atexit.register(_finish_at_exit)
            _native.note_fact("observed.python", sys.version.partition(" ")[0])
        if not self._is_launched or _native.settings_text() != inherited:
            # Not launched, or launched without the preload: a program that cleans its environment, for example.
            use_settings(config)
            _native.install_hooks()
        return config

    def configure(self, **keywords: Any) -> None:
        """Choose what is collected from now on; see `config`."""
        with self._lock:
            if self._config is None and SETTINGS_VARIABLE not in os.environ:
                with_keywords(Config(), keywords)  # one that is not accepted must not stay
                self._first_keywords = keywords
            self.begin_launched()
            before = self.config
            if self._is_left_out:
                with_keywords(before, keywords)  # a setting that is not accepted is an error in every rank
                return
            config = with_keywords(self._defaults or before, keywords)
            self._awaits_start = not (self._is_launched or self._is_tracing or self._was_stopped)
            stays = self._settings_once.what_stays(before, config, keywords)
            self._exchange(before, dataclasses.replace(config, collect_mode=before.collect_mode, **stays))

    def _exchange(self, before: Config, config: Config) -> None:
        """Put settings in force, if those that are expected are in force."""
        with self._lock:
            if config == before or self.config != before:
                return
            was_tracing = self._is_tracing
            if was_tracing:
                self._end_python_collection()
                _native.end_tracing()
            try:
                use_settings(config)
            finally:
                if _native.capture_directory():
                    note_changes(before, config)
                self._config = config
                if was_tracing:
                    _native.begin_tracing()
                    self._begin_python_collection()

    def begin_launched(self) -> None:
        """Begin under the launcher; without one, or if that has been done, do nothing.

        The bootstrap begins the session when the program imports torch. A program that calls us earlier, or has no
        torch, begins it by that call.
        """
        with self._lock:
            config = self.config
            if self._has_begun or not self._is_launched or self._is_left_out:
                return
            self._has_begun = True
            place_notes.look(config.role)
            atexit.register(self.finish)
            at_end_of_workers(self.finish)
            if config.collect_mode is CollectMode.IMMEDIATE:
                self._is_tracing = True
                _native.begin_tracing()
                self._begin_python_collection()

    def start(self) -> None:
        """Begin to collect. Blocks that are alive now appear as existing."""
        with self._lock:
            self.begin_launched()
            if self._is_left_out or (not self._is_tracing and was_not_chosen(self.config.to_settings_text())):
                self._awaits_start = False
                return
            if not self._is_tracing or not self._start_is_recorded:
                self._start_is_recorded = True
                if self._is_tracing:
                    _native.begin_first_step()
                _native.record_event(EventKind.START_TRACE, DEVICE_NONE)
            if self._is_tracing:
                return
            place_notes.look(self.config.role)
            self._is_tracing = True
            self._awaits_start = False
            self._follow_older_npu_blocks()
            _native.begin_tracing()
            self._begin_python_collection()

    def stop(self) -> None:
        """Stop collecting. Which blocks are alive is followed on, and `start()` may come again."""
        with self._lock:
            self.begin_launched()
            if not self._is_tracing:
                return
            if self._holders is not None:
                self._holders.collection_stops()
            self._is_tracing = False
            self._was_stopped = True
            self._end_python_collection()
            _native.end_tracing()
            _native.record_event(EventKind.STOP_TRACE, DEVICE_NONE)

    def step(self) -> None:
        """Say that a training or inference step has ended, and the next one begins."""
        self.begin_launched()
        if not self._is_tracing:
            return
        if self._optimizer_labels is not None:
            self._optimizer_labels.look()
        place_notes.step_ended(self.config.role)
        was_collecting = _native.is_collecting()
        if self.config.steps and self.config.devices != ("cpu",):
            from msmemscope.capture.task_queue import between_steps

            between_steps()
        if _native.end_step(self._device_of_steps()):
            self._step_ended()
        if not was_collecting and _native.is_collecting():
            with self._lock:
                self._observe_allocator()

    def _device_of_steps(self) -> int:
        """Steps are events of the current device, or of the cpu where that is observed; of none if both are not."""
        if "cpu" in self.config.devices:
            return DEVICE_CPU
        from msmemscope.capture.current_device import current_device

        device = current_device()
        return device if self.config.observes(device) else DEVICE_NONE

    def _begin_python_collection(self) -> None:
        config = self.config
        if config.events & _BLOCK_ITEMS:
            _native.begin_host_samples()
            from msmemscope.capture.out_of_memory import observe_out_of_memory

            observe_out_of_memory(lambda: self.config)
        from msmemscope.capture.sleep_modes import observe_sleep_modes

        observe_sleep_modes()
        if config.devices != ("cpu",):
            from msmemscope.capture.torch_npu_marks import observe_with_torch_npu

            observe_with_torch_npu()
            self._follow_task_queue()
            self._observe_allocator()
        # Also with a depth of 0: a failure for lack of memory takes its stack whatever the settings say.
        if not _native.collect_python_stacks(True) and config.python_stack_depth > 0:
            version = ".".join(map(str, sys.version_info[:3]))
            _native.note_fact("unobserved.python_stacks", f"the frames of Python {version} are not known")
        if config.events & _BLOCK_ITEMS and config.python_stack_depth > 0:
            from msmemscope.capture.backward_calls import note_backward_calls

            note_backward_calls()
        if Level.OP in config.level and (config.events & _OPERATOR_ITEMS or self._watches_memory):
            self._observe_operators()
        if Analysis.DECOMPOSE in config.analysis:
            self._begin_decomposition()
        if config.steps or config.trigger or (set(config.analysis) & _STEP_ANALYSES and config.events & _BLOCK_ITEMS):
            self._follow_steps()
        self._follow_triggers()
        if CollectionItem.TRACEBACK in config.events:
            if self._function_trace is None:
                from msmemscope.capture.function_trace import FunctionTrace

                self._function_trace = FunctionTrace()
            self._function_trace.start()

    def _follow_task_queue(self) -> None:
        from msmemscope.capture.task_queue import follow_task_queue

        config = self.config
        has_kernels = Level.KERNEL in config.level and CollectionItem.LAUNCH in config.events
        follow_task_queue(is_wanted=bool(config.steps) and has_kernels)

    def _follow_older_npu_blocks(self) -> None:
        if self.config.events & _BLOCK_ITEMS and self.config.devices != ("cpu",):
            from msmemscope.capture.allocator_trace import follow_older_blocks

            follow_older_blocks()

    def _observe_allocator(self) -> None:  # each time that events begin to be recorded
        if self.config.events & _BLOCK_ITEMS and self.config.devices != ("cpu",):
            from msmemscope.capture.allocator_trace import observe_allocator

            observe_allocator(with_entries=CollectionItem.ALLOCATOR in self.config.events)

    def _follow_steps(self) -> None:
        """Know steps that the program does not mark, and what holds blocks that outlive them."""
        if self._implied_steps is None or self._holders is None:
            from msmemscope.capture.growing_containers import begin_in_process
            from msmemscope.capture.holders import HolderSearches
            from msmemscope.capture.implied_steps import ImpliedSteps

            self._holders = HolderSearches(lambda: self.config.holder_time)
            self._containers = begin_in_process(self._container_time)
            self._containers.follow_up_with(self._holders.time_has_passed)
            self._implied_steps = ImpliedSteps(self._device_of_steps, self._implied_step_ended)
        from msmemscope.capture.garbage_collections import note_collections

        note_collections()
        self._implied_steps.enable_with_torch()

    def _follow_triggers(self) -> None:
        if (self._triggers.setting if self._triggers else "") != self.config.trigger:
            from msmemscope.capture.triggers import triggers_of

            self._triggers = triggers_of(self.config, self._exchange, lambda: self.config)

    def _container_time(self) -> int:
        return 0 if self.config.host is HostSampling.OFF else self.config.holder_time

    def _implied_step_ended(self) -> None:
        if self._optimizer_labels is not None:
            self._optimizer_labels.look()
        place_notes.step_ended(self.config.role)
        self._step_ended()

    def _step_ended(self) -> None:
        if self._holders is not None and self._containers is not None:
            self._holders.step_ended()
            self._containers.step_ended()
        if self._triggers is not None:
            self._triggers.step_ended(self.config)

    def _observe_operators(self) -> None:
        if self._operators is None:
            from msmemscope.capture.operators import OperatorCollector

            self._operators = OperatorCollector()
        self._operators.enable_with_torch(self.config)

    def observe_operators_for_watching(self) -> None:
        """From now on operators are looked at also where no events of theirs are collected."""
        with self._lock:
            self.begin_launched()
            if not self._watches_memory:
                self._watches_memory = True
                if self._is_tracing and Level.OP in self.config.level:
                    self._observe_operators()

    def _begin_decomposition(self) -> None:
        from msmemscope.capture.frameworks.automatic import enable_automatic_hooks

        if self._optimizer_labels is None:
            from msmemscope.capture.optimizer_labels import OptimizerLabels

            self._optimizer_labels = OptimizerLabels()
        self._optimizer_labels.enable_with_torch()
        enable_automatic_hooks()

    def _end_python_collection(self) -> None:
        from msmemscope.capture.sleep_modes import leave_sleep_modes

        leave_sleep_modes()
        if self._implied_steps is not None:
            from msmemscope.capture.garbage_collections import leave_collections

            self._implied_steps.disable()
            leave_collections()
        if self._function_trace is not None:
            self._function_trace.stop()
        if self._optimizer_labels is not None:
            from msmemscope.capture.frameworks.automatic import disable_automatic_hooks

            self._optimizer_labels.disable()
            disable_automatic_hooks()
        if self._operators is not None:
            self._operators.disable()

    def finish(self) -> None:
        """End in an orderly way, when the interpreter is about to."""
        _native.end_host_samples()  # before memory of our own is taken
        place_notes.look(self.config.role)
        if self._is_tracing:
            if self._containers is not None:
                self._containers.process_ends()
            if self._holders is not None:
                self._holders.process_ends()
            if self._optimizer_labels is not None:
                # From here on the interpreter frees objects that the program held to its end.
                _native.note_fact("process.ended_at", str(_native.next_sequence()))
            self._end_python_collection()


session = Session()


def config(**settings: Any) -> None:
    """Choose what is collected. Call it before `start()`, and again to change it; each call begins from the defaults.

    The settings are the options of the command line, with underscores, and take the same text::

        msmemscope.config(call_stack="c:10,python:5", events="launch,alloc,free", level="0", device="npu",
                          analysis="leaks,decompose", data_format="db", output="results")

    or values: `call_stack={"python": 5}`, `events=["alloc", "free"]`, `steps=[2, 3]`, `output=pathlib.Path("out")`.
    While collection is on, the new settings hold at once. Under the command line the settings given there are the
    defaults. If the folder or format of results was typed there, it stays.

    Args:
        **settings: `events`, `level`, `device`, `steps`, `call_stack`, `analysis`, `host`, `max_size`, `holder_time`,
            `data_format` (or `format`), `output` (or `output_path`), `log_level`, `watch`, `watch_budget`,
            `watch_max_size`, `watch_checksum`, `trigger`, `trigger_steps`. `data_format` can be set once. `output` and `max_size` can be set once,
            before anything is recorded. If a later call wants another value, a line on stderr says so. A setting that
            is None counts as not given.

    Raises:
        ConfigurationError: If a setting is unknown or not accepted; nothing was changed. It is a ValueError.
    """
    with ImportLock("torch"):
        session.configure(**settings)


def start() -> None:
    """Begin to collect memory events; blocks that are alive now appear as existing at this moment.

    Without the launcher and `config()`, collects what the command line collects by default. Does nothing if collection
    is on.

    Raises:
        MsmemscopeError: If the settings cannot be used.
    """
    with ImportLock("torch"):
        session.start()


def stop() -> None:
    """Stop collecting memory events; `start()` may be called again. Does nothing if collection is off."""
    with ImportLock("torch"):
        session.stop()


def step() -> None:
    """Mark the end of a step and the beginning of the next. Does nothing if collection is off."""
    session.step()


def begin_launched() -> None:
    """Begin the session of a process that runs under the launcher; called by the bootstrap."""
    session.begin_launched()


def _finish_at_exit() -> None:
    """Without a launcher nobody else writes the results: a process of our own does, while this one waits."""
    session.finish()
    directory = _native.capture_directory()
    if not directory and session.awaits_start and session.writes_results:
        _native.warn("nothing was recorded: collection waited for msmemscope.start(), which was never called")
    if directory:
        _native.close()
    if not (directory and session.writes_results):
        return
    if not os.path.isdir(directory):  # noqa: PTH112 - pathlib is not loaded here
        output = session.config.output
        _native.warn(
            f"{output} was removed or moved while the program ran, and what was recorded with it; if it was moved, "
            "msmemscope recover FOLDER writes the results"
        )
    else:
        from msmemscope.capture.finish import write_results

        write_results(dataclasses.replace(session.config))
