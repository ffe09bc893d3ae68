"""`msmemscope fits PATH`: whether what was recorded fits in devices of other sizes."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope.cli.chosen_input import add_path, chosen_input, describe_verb
from msmemscope.cli.each_process import Shown, each_process, write_json
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from msmemscope.recording import Recording

# The model and its columns are imported when this verb is chosen.

_RECORDED: Final = "--recorded"
_CAPACITY: Final = "--capacity"
_EXAMPLE: Final = "msmemscope fits memscopeDumpResults --capacity=32GiB,64GiB"


class FitsCommand:
    """Say whether a job fits in devices of other sizes, the worst rank first.

    Counts what the caching allocator reserves in a replay, and what else the
    process has from the driver: contexts, HCCL, workspaces. PATH is a capture
    folder, a folder of several, a dump, or a memory snapshot of torch; without
    it, the latest run. A dry run needs no NPU: vnpu run --compute=none.
    """

    name = "fits"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument(
            _CAPACITY,
            metavar="SIZE,...",
            help="memory that a device could have; several are tried one by one (default: what such devices often have)",
        )
        parser.add_argument(
            _RECORDED,
            metavar="KEY=VALUE,...",
            help="settings that the recording was made with and does not show",
        )
        parser.add_argument("--json", action="store_true", help="write it to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Try the capacities on each process."""
        from msmemscope.analysis.replay.fitting import fit_recording
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.launch.input_notes import note_problems
        from msmemscope.reports.analysis_json import result_content
        from msmemscope.reports.coverage_report import render_limits, render_missing
        from msmemscope.reports.fit_report import FittedProcess, render_fits

        capacities = _capacities(arguments.capacity)
        path, folders = chosen_input(arguments.path)
        shown = Shown(
            self.name,
            functools.partial(fit_recording, capacities=capacities, recorded_settings=arguments.recorded),
            lambda *_: None,
            result_content,
        )
        answers: list[tuple[FittedProcess, dict[str, Any]]] = []
        without_device: list[tuple[FittedProcess, dict[str, Any]]] = []
        # As JSON, so that nothing is written before all are known: the worst comes first.
        for recording, found, content in each_process(path, folders, shown, as_json=True):
            fitted = FittedProcess(recording.process_id, recording.place, found)
            (answers if _has_device(recording) else without_device).append((fitted, content))
            if not arguments.json:
                note_problems(recording.source, recording.problems)
        # A launcher has no device, and needs none to fit in.
        answers = answers or without_device
        answers.sort(key=lambda answer: -answer[0].found.needed_bytes)
        if arguments.json:
            write_json({"verb": self.name, "path": str(path), "processes": [content for _, content in answers]})
            return 0
        processes = [process for process, _ in answers if process.found.devices]
        if processes:
            render_fits(processes, sys.stdout)
            render_limits(processes[0].found.coverage, sys.stdout)
        for process, _ in answers:
            if not process.found.devices:
                render_missing(process.found.coverage, sys.stdout)
        name_next_command("advise", [arguments.path])
        return 0


def _has_device(recording: Recording) -> bool:
    """Whether it has a block of memory on any device."""
    return bool((recording.blocks["device"] >= 0).any())


def _capacities(given: str | None) -> list[int] | None:
    """Read what was typed; None where nothing was."""
    from msmemscope.units import SIZE_FORMS, parse_size_bytes

    if given is None:
        return None
    sizes = [parse_size_bytes(part, option=_CAPACITY) for part in given.split(",")]
    if not all(sizes):
        message = "must be more than 0 bytes"
        raise UsageError(message, option=_CAPACITY, value=given, accepted=SIZE_FORMS)
    return sorted(set(sizes))
