"""The command line: launching a program under observation, and the verbs.

A process that imports it within a program that is observed is a launcher or a verb of ours. Nothing is said of its host
memory, from here on: the import of the rest takes some already.
"""

from __future__ import annotations

import sys

_launched = sys.modules.get("msmemscope.capture.launched")
if _launched is not None:
    _launched.leave_out_host_memory()
