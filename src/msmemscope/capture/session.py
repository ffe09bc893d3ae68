"""The session of the Python API: `start()`, `step()` and `stop()`.

There is one session per process. Under the launcher it begins by itself (`begin_launched`), and `start()` and
`stop()` then choose what is collected; without it, `start()` brings the default settings.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import secrets
import sys
from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.config import SETTINGS_VARIABLE, CollectionItem, CollectMode, Config, Level
from msmemscope.errors import MsmemscopeError
from msmemscope.model.events import DEVICE_CPU, DEVICE_NONE, EventKind

if TYPE_CHECKING:
    from msmemscope.capture.function_trace import FunctionTrace
    from msmemscope.capture.operators import OperatorCollector

_OPERATOR_ITEMS = frozenset({CollectionItem.LAUNCH, CollectionItem.ACCESS})


class Session:
    """What this process collects, and whether it does so now."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._is_launched = False
        self._has_begun = False
        self._is_tracing = False
        self._operators: OperatorCollector | None = None
        self._function_trace: FunctionTrace | None = None

    @property
    def config(self) -> Config:
        """The settings in force; the first access decides where they come from."""
        if self._config is None:
            self._config = self._settle_config()
        return self._config

    def _settle_config(self) -> Config:
        inherited = os.environ.get(SETTINGS_VARIABLE)
        if inherited is not None:
            self._is_launched = True
            config = Config.from_settings_text(inherited)
        else:
            config = Config(session=secrets.token_hex(8), collect_mode=CollectMode.DEFERRED)
            atexit.register(_finish_at_exit)
        if not self._is_launched or _native.settings_text() != inherited:
            # Not launched, or launched without the preload: a program that cleans its environment, for example.
            if not _native.configure(config.to_settings_text()):
                message = "the settings cannot be used by the native core"
                raise MsmemscopeError(message, hint="shorten the output path")
            _native.install_hooks()
        return config

    def begin_launched(self) -> None:
        """Begin under the launcher; without one, or if that has been done, do nothing.

        The bootstrap begins the session when the program imports torch. A program that calls us earlier, or has no
        torch, begins it by that call.
        """
        config = self.config
        if self._has_begun or not self._is_launched:
            return
        self._has_begun = True
        atexit.register(self.finish)
        if config.collect_mode is CollectMode.IMMEDIATE:
            self._is_tracing = True
            _native.begin_tracing()
            self._begin_python_collection()

    def start(self) -> None:
        """Begin to collect. Blocks that are alive now appear as existing."""
        self.begin_launched()
        if self._is_tracing:
            return
        self._is_tracing = True
        _native.record_system_event(EventKind.START_TRACE, DEVICE_NONE)
        _native.begin_tracing()
        self._begin_python_collection()

    def stop(self) -> None:
        """Stop collecting. Which blocks are alive is followed on, and `start()` may come again."""
        self.begin_launched()
        if not self._is_tracing:
            return
        self._is_tracing = False
        self._end_python_collection()
        _native.end_tracing()
        _native.record_system_event(EventKind.STOP_TRACE, DEVICE_NONE)

    def step(self) -> None:
        """Say that a training or inference step has ended, and the next one begins."""
        self.begin_launched()
        if not self._is_tracing:
            return
        _native.end_step(self._device_of_steps())

    def _device_of_steps(self) -> int:
        """Steps are events of the current NPU, or of the cpu where that is observed; of none if both are not."""
        devices = self.config.devices
        if "cpu" in devices:
            return DEVICE_CPU
        from msmemscope.capture.current_npu import current_npu

        device = _native.physical_device(current_npu())
        return device if "npu" in devices or f"npu:{device}" in devices else DEVICE_NONE

    def _begin_python_collection(self) -> None:
        config = self.config
        if config.devices != ("cpu",):
            from msmemscope.capture.torch_npu_marks import observe_with_torch_npu

            observe_with_torch_npu()
        if config.python_stack_depth > 0 and not _native.collect_python_stacks(True):
            version = ".".join(map(str, sys.version_info[:3]))
            _native.note_fact("unobserved.python_stacks", f"the frames of Python {version} are not known")
        if config.events & _OPERATOR_ITEMS and Level.OP in config.level:
            if self._operators is None:
                from msmemscope.capture.operators import OperatorCollector

                self._operators = OperatorCollector(config)
            self._operators.enable_with_torch()
        if CollectionItem.TRACEBACK in config.events:
            if self._function_trace is None:
                from msmemscope.capture.function_trace import FunctionTrace

                self._function_trace = FunctionTrace()
            self._function_trace.start()

    def _end_python_collection(self) -> None:
        if self._function_trace is not None:
            self._function_trace.stop()
        if self._operators is not None:
            self._operators.disable()

    def finish(self) -> None:
        """End in an orderly way, when the interpreter is about to."""
        if self._is_tracing:
            self._end_python_collection()


_session = Session()


def start() -> None:
    """Begin to collect memory events; blocks that are alive now appear as existing at this moment.

    Without the launcher, collects what the command line collects by default. Does nothing if collection is on.

    Raises:
        MsmemscopeError: If the settings cannot be used.
    """
    _session.start()


def stop() -> None:
    """Stop collecting memory events; `start()` may be called again. Does nothing if collection is off."""
    _session.stop()


def step() -> None:
    """Mark the end of a step and the beginning of the next. Does nothing if collection is off."""
    _session.step()


def begin_launched() -> None:
    """Begin the session of a process that runs under the launcher; called by the bootstrap."""
    _session.begin_launched()


def _finish_at_exit() -> None:
    """Without a launcher nobody else writes the results: a process of our own does, while this one waits."""
    _session.finish()
    directory = _native.capture_directory()
    if directory:
        _native.close()
        from msmemscope.capture.finish import write_results

        write_results(dataclasses.replace(_session.config))
