"""Tells the watch of compiled graphs: their code writes tensors of the program without any operator of torch.

A graph may write the tensors that it is given: parameters, buffers and inputs. Anything else that changes while it runs
is a finding, as with an operator.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = ("torch._inductor.output_code", "torch._inductor.codecache")
"""Where inductor keeps the class of its graphs: since torch 2.6, and before."""


def watch_compiled_graphs() -> None:
    """See to it that the watch is told when a graph of inductor runs; nothing is imported for it."""
    for name in _MODULES:
        if name in sys.modules:
            _tell_of_graphs(name)
        else:
            when_imported(name, functools.partial(_tell_of_graphs, name))


def _tell_of_graphs(module: str) -> None:
    """Never raises: it may run in the middle of the program's imports."""
    graph: Any = vars(sys.modules[module]).get("CompiledFxGraph")
    if graph is None or graph.__module__ != module or hasattr(graph.__call__, "__wrapped__"):
        return
    run: Callable[[Any, Any], Any] = graph.__call__

    def call(self: Any, inputs: Any) -> Any:
        if not _native.watch_graph_begins(inputs):
            return run(self, inputs)
        try:
            return run(self, inputs)
        finally:
            _native.watch_graph_ends()

    _native.hide_code((call.__code__,))
    graph.__call__ = functools.update_wrapper(call, run)
