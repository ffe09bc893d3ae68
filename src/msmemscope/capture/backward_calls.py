"""Source lines for memory that the threads of torch's backward engine allocate: the line that called the backward pass.

On an accelerator a backward pass runs in threads that run no Python. One method is the way into torch's engine. Its C
function notes the stack of its caller (`native/bindings/backward_calls.h`).
"""

from __future__ import annotations

import sys
from typing import Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

_is_waiting = False


def note_backward_calls() -> None:
    """Begin now if the program has torch already, else as soon as it imports it. Once is enough."""
    global _is_waiting  # noqa: PLW0603 - one for the process, as is what is patched
    if hasattr(sys.modules.get("torch"), "__version__"):
        _attach()
    elif not _is_waiting:
        _is_waiting = True
        when_imported("torch", _attach)


def _attach() -> None:
    """Never raises: it may run in the middle of the program's imports."""
    try:
        private: Any = sys.modules["torch"]._C  # noqa: SLF001 - the engine has no public name
        is_known = _native.note_backward_calls(private._ImperativeEngine)  # noqa: SLF001 - see above
        why = "" if is_known else "its method run_backward is not as it is known to be"
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
        why = f"{type(error).__name__}: {error}"
    if why:
        _native.note_fact("unobserved.backward_calls", why)
