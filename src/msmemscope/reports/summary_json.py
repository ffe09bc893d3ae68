"""The summary of a run as JSON: the verdicts, and the figures of each process behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.first_line import not_judged, without_findings
from msmemscope.reports.report_text import relative_path
from msmemscope.reports.run_verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.host.host_ledger import HostLedger
    from msmemscope.reports.run_summary import ProcessSummary


def summary_content(processes: Sequence[ProcessSummary]) -> dict[str, Any]:
    """Turn the summary of a run into types that `json.dumps` takes.

    Args:
        processes: All of it, at least one.
    """
    found = verdicts(processes)
    unknown = not_judged(processes)
    sentences = [one.sentence(names_process=len(processes) > 1) for one in found]
    first_line = sentences[0] if sentences else without_findings(processes, unknown)
    return {
        "first_line": first_line,
        "verdicts": [
            {
                "kind": one.kind.value,
                "sentence": sentence,
                "device": device_name(one.device),
                "size_bytes": one.size_bytes,
                "block_count": one.block_count,
                "site": one.site,
                "remedy": one.remedy or None,
                "process_ids": [process.process_id for process in one.processes],
                "next": one.command(relative_path(one.processes[0].directory)),
            }
            for one, sentence in zip(found, sentences, strict=True)
        ],
        "nothing_found": None if found or unknown else first_line,
        "not_judged": list(unknown),
        "processes": [_process_content(process) for process in processes],
    }


def _process_content(process: ProcessSummary) -> dict[str, Any]:
    peaks = process.overview.peaks if process.overview is not None else ()
    return {
        "process_id": process.process_id,
        "program": process.program,
        "rank": process.rank,
        "place": process.place.content(),
        "source": str(process.directory),
        "form": process.form,
        "start_ns": process.start_ns or None,
        "is_running": process.is_running,
        "event_count": process.event_count,
        "peaks": [
            {
                "device": device_name(peak.device),
                "pool": pool_word(peak.pool, peak.device),
                "peak_bytes": peak.peak_bytes,
                "block_count": peak.in_use.block_count,
                "timestamp_ns": peak.timestamp_ns,
                "sequence": peak.sequence,
            }
            for peak in peaks
        ],
        "host_memory": None if process.host_memory is None else _host_memory_content(process.host_memory),
        "leaked_bytes": process.leaked_bytes if process.judges_leaks else None,
        "files": [str(file.path) for file in process.files],
        "coverage": [
            *process.remarks,
            *(f"not observed: {reason}" for reason in process.unobserved),
            *(one.sentence for one in process.not_judged),
            *process.analysis_remarks,
        ],
    }


def _host_memory_content(found: HostLedger) -> dict[str, Any]:
    return {
        "peak_bytes": found.peak_bytes,
        "end_bytes": found.end_bytes,
        "limit_bytes": found.group_limit_bytes or None,
        "parts": list(found.parts.iter_rows(named=True)),
    }
