"""Keeps our wrappers out of the code that `torch.compile` compiles.

Its tracer follows calls into any Python function. In our wrappers it would meet code that it cannot trace, and break
graphs where the program alone has none. Or it would compile the wrapper and lose its labels. PyTorch has a list of
packages that are run as they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msmemscope import _native

if TYPE_CHECKING:
    from types import ModuleType

RULES = "torch._dynamo.trace_rules"
"""The module with the list; imported by programs that compile."""

_reported: list[ModuleType] = []


def stay_out_of_compilation() -> None:
    """Put our package on the list, if the program has imported it. Never raises."""
    rules = sys.modules.get(RULES)
    if rules is None or any(rules is each for each in _reported):
        return
    _reported.append(rules)
    try:
        rules.add("msmemscope")
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
        _native.note_fact(
            "unobserved.framework_hooks", f"they change what is compiled: {type(error).__name__}: {error}"
        )
