"""`msmemscope summary PATH`: the summary at the end of a run, at any later time and of any input."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, chosen_input, describe_verb, recordings_at
from msmemscope.errors import EXIT_STATUS_FAILURE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from msmemscope.errors import MsmemscopeError
    from msmemscope.reports.run_summary import ProcessSummary

_EXAMPLE: Final = "msmemscope summary memscopeDumpResults"


class SummaryCommand:
    """Show the summary of a run again: what was found first, then the peaks.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump
    (CSV or DB), or a memory snapshot of torch. Without it, the latest run is taken.
    A capture has the summary that its run ended with, about the asked analyses.
    A dump or a snapshot is searched for all that a summary can say.
    """

    name = "summary"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument("--json", action="store_true", help="write it to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Sum up all processes."""
        path, folders = chosen_input(arguments.path)
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.launch import messages
        from msmemscope.launch.input_notes import note_foreign_owner
        from msmemscope.reports.run_summary import RunSummary
        from msmemscope.reports.run_verdicts import verdicts
        from msmemscope.reports.summary_json import summary_content
        from msmemscope.reports.terminal import render_run

        failures: list[MsmemscopeError] = []
        processes = _summaries(folders or [path], failures)
        if not processes:
            raise failures[0]
        for failure in failures:
            messages.warning(failure.message, failure.hint)
        note_foreign_owner(path)
        if arguments.json:
            content = {"path": str(path), **summary_content(processes)}
            sys.stdout.write(f"{json.dumps(content, ensure_ascii=False, indent=2)}\n")
        else:
            render_run(RunSummary(tuple(processes), recover_command=f"msmemscope recover {path}"), sys.stdout)
            if not verdicts(processes):  # else the summary says itself what to type next
                name_next_command("analyze peak", [arguments.path])
        # Of a log in which no record checks nothing is known.
        is_known = any(
            process.overview is not None and (process.event_count or not process.is_damaged) for process in processes
        )
        return 0 if is_known else EXIT_STATUS_FAILURE


def _summaries(paths: Sequence[Path], failures: list[MsmemscopeError]) -> list[ProcessSummary]:
    """Sum up what lies at some paths; captures as at the end of a run, which need not fit into memory for that."""
    from msmemscope.launch.captures import readable_capture
    from msmemscope.launch.finish import finish
    from msmemscope.launch.judged_process import judge_process

    captures = {path: capture for path in paths if (capture := readable_capture(path)) is not None}
    ordered = sorted(captures.values(), key=lambda capture: (capture.header.start_ns, capture.header.process_id))
    others = [path for path in paths if path not in captures]
    judged = (judge_process(recording) for recording, _ in recordings_at(others, failures))
    return [*finish(ordered, {}).processes, *(one.as_summary() for one in judged)]
