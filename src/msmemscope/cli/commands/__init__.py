"""The verbs of the command line.

Each is one module here. `VERBS_BY_PURPOSE` lists them all. A verb is imported when it is the one that was typed:
a program that is observed waits for none of them.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Final, Protocol

    class Command(Protocol):
        """One verb. The docstring of its class is the text of its help."""

        name: str
        """The word that is typed after `msmemscope`."""

        def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
            """Add the arguments of the verb."""

        def run(self, arguments: argparse.Namespace) -> int:
            """Do it; returns the exit status."""


VERBS_BY_PURPOSE: Final[Mapping[str, Mapping[str, str]]] = {
    "While a program runs, or where it was killed": {
        "attach": "Record a program that runs already, and let it go again.",
        "control": "Tell a process that records to begin, stop, or change settings.",
        "history": "Keep what running programs have in use, hour by hour.",
        "live": "Watch what a running program has in use, second by second.",
        "metrics": "Offer figures of running programs to Prometheus.",
        "recover": "Write the results of a run that was killed or has processes left.",
    },
    "Look at a run": {
        "summary": "Show the summary of a run on one screen, what was found first.",
        "top": "Rank the call sites by bytes, blocks, churn or time.",
        "tree": "Show the call tree of bytes, the outermost frame first.",
        "stats": "Count events, steps and blocks, by size and by lifetime.",
        "report": "Write an HTML page about a run, from findings to source lines.",
        "view": "Show a run in the browser, however long it is.",
    },
    "Ask what is wrong": {
        "analyze": "Find leaks, inefficient use, growth, and what memory is made of.",
        "compare": "Compare the memory of two runs or steps.",
        "cluster": "Answer about all ranks of a job at once, however many there are.",
    },
    "Need less memory": {
        "advise": "Try settings of the allocator, and say what each would save.",
        "replay": "Replay the allocations under other settings of the allocator.",
        "fits": "Say whether a job fits in devices of other sizes.",
    },
    "Pass it on": {
        "export": "Write what was recorded as a file for other tools.",
        "events": "Write an event log as text.",
        "mcp": "Offer the questions as tools to a coding agent.",
    },
    "Set up, and get help": {
        "env": "Print the lines that preload msmemscope into a shell's programs.",
        "doctor": "Say what can be observed on this machine, and what is missing.",
        "bug-report": "Collect what a report of a fault needs, without names.",
        "completion": "Print a script with which a shell completes command lines.",
    },
}
"""The verbs for each purpose: what is typed after `msmemscope`, and one line about it.

`bug-report` is `BugReportCommand` in the module `bug_report`.
"""

VERBS: Final[Mapping[str, str]] = {
    name: summary for verbs in VERBS_BY_PURPOSE.values() for name, summary in verbs.items()
}
"""The same without the purposes."""


VERBS_OF_OTHERS: Final[Mapping[str, str]] = {
    "flamegraph": "msmemscope report writes a page with the stacks; msmemscope export --to=flamegraph writes them for flamegraph.pl",
    "parse": "msmemscope events writes an event log as text",
    "record": "msmemscope python train.py runs a program and records it",
    "table": "msmemscope top ranks call sites; msmemscope report writes a page with tables",
    "transform": "msmemscope export --to=FORMAT writes files for other tools",
}
"""Verbs that users of another profiler type, and the way to do the same here."""


def command_named(verb: str) -> Command:
    """Import a verb.

    Args:
        verb: One of `VERBS`.
    """
    module = importlib.import_module(f"{__name__}.{verb.replace('-', '_')}")
    command: Command = getattr(module, "".join(map(str.capitalize, verb.split("-"))) + "Command")()
    return command
