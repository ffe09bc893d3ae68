"""Torch's own figures at the moment when it gives up an allocation."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.capture.device_figures import accelerators_of_process
from msmemscope.capture.holders import record_holders_at_failure
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.module_labels import module_labels
from msmemscope.capture.moved_module import note_bytes_to_come
from msmemscope.capture.saved_tensors import label_saved_tensors
from msmemscope.capture.snapshot_records import is_observed, record_figures, warn_once
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.events import OOM_SNAPSHOT_AFTER_NAME, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.capture.device_figures import Accelerators
    from msmemscope.configuration import Config

_observed: list[Accelerators] = []
_awaited: set[str] = set()
_current_config: list[Callable[[], Config]] = []


def observe_out_of_memory(current_config: Callable[[], Config]) -> None:
    """Take a snapshot where torch gives an allocation up, from the moment on at which the program uses a device.

    Once per process; waits for torch_npu and torch if the program does not have them yet. The function that is called
    then runs within the program's exception. It is quick, and its own failures never take the exception's place.

    Args:
        current_config: Returns the settings in force.
    """
    _current_config[:] = [current_config]
    _attach_if_known()
    for module in ("torch_npu", "torch"):
        if module not in sys.modules and module not in _awaited:
            _awaited.add(module)
            when_imported(module, _attach_if_known)


def _attach_if_known() -> None:
    accelerators = accelerators_of_process()
    if accelerators is not None:
        _attach(accelerators)


def _attach(accelerators: Accelerators) -> None:
    if accelerators in _observed:
        return
    _observed.append(accelerators)

    def attach() -> None:
        try:
            accelerators.attach_out_of_memory_observer(_memory_ran_out)
        except Exception as error:  # noqa: BLE001 - inside the initialisation of the program's torch
            _native.note_fact("unobserved.out_of_memory", f"{type(error).__name__}: {error}")

    try:
        accelerators.when_initialised(attach)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
        _native.note_fact("unobserved.out_of_memory", f"{type(error).__name__}: {error}")


def _memory_ran_out(device: int, size_bytes: int, _total: int, _free: int) -> None:
    """Torch calls this with the GIL and without its allocator's lock, before it raises.

    An exception of ours would be raised in the place of torch's. Garbage is not collected meanwhile. Memory that waits
    for the collector is a part of the memory in use. Its holders are looked for last.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        config = _current_config[0]()
        accelerators = accelerators_of_process()
        if accelerators is None or not _native.is_collecting():
            return
        number = accelerators.driver_number(device)
        if not is_observed(config, accelerators, number):
            return
        if not _native.failure_was_recorded():
            # A limit of torch's own (set_per_process_memory_fraction): no driver was asked.
            function = f"torch.{accelerators.kind}"
            _native.record_event(
                EventKind.OOM,
                number,
                size=size_bytes,
                attributes={
                    AttributeKey.FUNCTION: function,
                    AttributeKey.REQUESTED_BYTES: size_bytes,
                    AttributeKey.ALLOCATION_FLAG: 0,
                },
                name=function,
                with_stacks=True,
                extra=config.oom_top,
            )
        record_figures(number, accelerators.figures(device), OOM_SNAPSHOT_AFTER_NAME, with_stacks=True)
        if module_labels.is_on:
            module_labels.find_all()
            module_labels.look()
            label_saved_tensors()
        record_holders_at_failure(config.holder_time)
        note_bytes_to_come(number, accelerators.kind)
    except Exception as error:  # noqa: BLE001 - see above
        warn_once(f"no snapshot of the state after an allocation failed: {type(error).__name__}: {error}")
    finally:
        if was_enabled:
            gc.enable()


_native.hide_code((_memory_ran_out.__code__,))
