"""Tools about inputs as a whole: the runs, the content of a path, and the differences of two inputs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmemscope.agent.bounded_answer import OfRecording
from msmemscope.agent.parameters import PATH, Parameter
from msmemscope.agent.tool import Tool
from msmemscope.analysis.compare.comparison import compare
from msmemscope.analysis.compare.process_pairs import paired_processes
from msmemscope.analysis.options import levels_of
from msmemscope.configuration import Config
from msmemscope.errors import MissingInputError
from msmemscope.launch.captures import readable_capture
from msmemscope.launch.faults import faults_as_errors
from msmemscope.launch.finish import finish
from msmemscope.launch.judged_process import judge_process
from msmemscope.launch.latest_runs import runs_in
from msmemscope.model.devices import device_name
from msmemscope.reports.comparison_report import largest_differences
from msmemscope.reports.summary_json import summary_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.agent.loaded_recordings import LoadedRecordings
    from msmemscope.recording import Recording
    from msmemscope.reports.run_summary import ProcessSummary

_STEP: Final = {"type": "integer", "minimum": 0}


def recording_tools() -> list[Tool]:
    """Return `list_runs`, `summary`, `load` and `compare`."""
    return [
        Tool(
            "list_runs",
            "The runs in an output folder, the latest first, each with the capture folders of its processes. Begin here "
            "where no path is known.",
            (
                Parameter(
                    "folder",
                    f"The output folder; default: {Config().output} in the working folder of this server.",
                    {"type": "string"},
                ),
            ),
            _runs,
        ),
        Tool(
            "summary",
            "The first line that a person reads of what lies at a path, all verdicts by size, and what was not judged. Where "
            "nothing_found is null, nothing may be said to be fine. Ask this first about a path.",
            (PATH,),
            _summed_up,
        ),
        Tool(
            "load",
            "Show the processes at a path, with their devices, pools, steps, numbers of events, stretch of time, and gaps.",
            (PATH,),
            _inputs,
        ),
        Tool(
            "compare",
            "Compare the memory of two runs, or of two steps of one: the parts of their peaks, and the largest differences by "
            "operator and line.",
            (
                Parameter(
                    "base",
                    "The path to compare against, as other tools take it.",
                    {"type": "string"},
                    is_required=True,
                ),
                Parameter("compare", "The path that may be different.", {"type": "string"}, is_required=True),
                Parameter("base_step", "Only this step of the base.", _STEP),
                Parameter("compare_step", "Only this step of the other.", _STEP),
                Parameter("base_process", "The process id, where several lie at base.", {"type": "integer"}),
                Parameter("compare_process", "The process id, where several lie at compare.", {"type": "integer"}),
                Parameter(
                    "level", "op (default), kernel, or op,kernel: what is compared one by one.", {"type": "string"}
                ),
            ),
            _compared,
        ),
    ]


def _runs(recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    del recordings
    folder = Path(given.get("folder") or Config().output).expanduser().absolute()
    if not folder.is_dir():
        message = f"{folder} is no folder"
        raise MissingInputError(
            message, hint="name the output folder of a run; without --output it is memscopeDumpResults"
        )
    runs = [
        {
            "began": _moment(run.begun_ns),
            "processes": len(run.captures),
            "paths": [str(capture) for capture in run.captures],
        }
        for run in reversed(runs_in(folder))
    ]
    return {"folder": str(folder), "runs": runs}


def _summed_up(recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    processes: list[ProcessSummary] = []
    for recording in recordings.at(given["path"]):
        # Of a capture it is the result that its run ended with, for the analyses that were asked for.
        capture = readable_capture(Path(recording.source))
        processes += finish([capture], {}).processes if capture else [judge_process(recording).as_summary()]
    return {"path": given["path"], **summary_content(processes)}


def _inputs(recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    found = recordings.at(given["path"])
    return {"path": given["path"], "processes": [OfRecording(_described(recording), recording) for recording in found]}


def _described(recording: Recording) -> dict[str, object]:
    """The content of a recording, as far as its tables say so by themselves."""
    steps, events = recording.steps, recording.events
    about_steps: dict[str, object] = {"count": steps.height, "taken_from": recording.step_source.value}
    if steps.height:
        about_steps |= {"first": steps["number"][0], "last": steps["number"][-1]}
    described: dict[str, object] = {
        "process_id": recording.process_id,
        "source": recording.source,
        "form": recording.form,
        "devices": [device_name(device) for device in sorted(recording.blocks["device"].unique())],
        # The column keeps its name, so that pools are written as words.
        "pools": recording.blocks.group_by("device", "pool", maintain_order=True).len("blocks"),
        "events": events.height,
        "blocks": recording.blocks.height,
        "steps": about_steps,
    }
    if events.height:
        described |= {
            "first_sequence": events["sequence"][0],
            "last_sequence": events["sequence"][-1],
            "began": _moment(int(events["timestamp_ns"].to_numpy().min())),
            "ended": _moment(int(events["timestamp_ns"].to_numpy().max())),
        }
    facts = {name: list(values) for name, values in recording.facts.items()}
    return {**described, "coverage": recording.coverage, "problems": recording.problems, "facts": facts}


def _compared(recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    levels = levels_of(given.get("level", "op"))
    sides = ("base", "compare")
    bases, others = (
        recordings.chosen(given[side], given.get(f"{side}_process"), option=f"{side}_process") for side in sides
    )
    base_step, compare_step = (given.get(f"{side}_step") for side in sides)
    pairs = paired_processes(bases, others, [Path(given[side]) for side in sides], [base_step, compare_step])
    compared = []
    for base, other in pairs:
        with faults_as_errors(during=f"compare {base.source} with {other.source}", send="both inputs"):
            compared.append(
                _differences(base, other, compare(base, other, levels, base_step=base_step, other_step=compare_step))
            )
    return {"pairs": compared}


def _differences(base: Recording, other: Recording, comparison: Any) -> dict[str, object]:
    peaks = [
        {
            "device": device_name(peak.device),
            "base_bytes": peak.base_bytes,
            "compare_bytes": peak.compare_bytes,
            "difference_bytes": peak.difference_bytes,
        }
        for peak in comparison.peaks
    ]
    content = {
        "peaks": peaks,
        "differences": largest_differences(comparison),
        "peak_parts": comparison.peak_parts,
        "remarks": comparison.remarks,
        "coverage": comparison.coverage,
    }
    return {
        "base_process": base.process_id,
        "compare_process": other.process_id,
        "is_answered": comparison.coverage.is_answered,
        "result": OfRecording(content, base),
    }


def _moment(nanoseconds: int) -> str | None:
    """A time of the clock as text; None where it is not known, or no time that calendars have."""
    if nanoseconds <= 0:
        return None
    try:
        return dt.datetime.fromtimestamp(nanoseconds / 1e9, dt.timezone.utc).isoformat()
    except (OverflowError, OSError, ValueError):
        return None
