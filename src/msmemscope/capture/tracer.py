"""The function trace on its own: `msmemscope.tracer.start()` and `stop()`.

Needs neither `config()` nor `start()`. Each Python thread's calls between the two go into the file
`python_trace_{tid}_{timestamp}.csv`, or into a table of the dump where that is a database.
"""

from __future__ import annotations

import atexit

from msmemscope import _native
from msmemscope.capture.function_trace import FunctionTrace, leave_untraced
from msmemscope.capture.session import session

_trace = FunctionTrace(is_unconditional=True)
_ends_at_exit: list[bool] = []


def start() -> None:
    """Trace the calls of every Python thread from now on, memory events being collected or not.

    There is one trace: where `events="traceback"` has begun it already, this keeps it going until `stop()`. Says so in
    one line if the tracer is on already, or if the program uses a profiler of its own (`sys.setprofile`).

    Raises:
        MsmemscopeError: If the settings of the session cannot be used.
    """
    session.begin_launched()
    if _trace.is_on:
        _native.warn("tracer.start(): the tracer is on already")
        return
    if _trace.start() and not _ends_at_exit:
        # After the session has registered what writes the results, so that this comes before it.
        _ends_at_exit.append(True)
        atexit.register(_trace.stop)


def stop() -> None:
    """Stop tracing; what `events="traceback"` of `start()` traces goes on.

    Calls that have not returned are written without an end. Says so in one line if the tracer is off.
    """
    if not _trace.is_on:
        _native.warn("tracer.stop(): the tracer is not on")
        return
    _trace.stop()


leave_untraced(start.__code__, stop.__code__, FunctionTrace.start.__code__, FunctionTrace.stop.__code__)
