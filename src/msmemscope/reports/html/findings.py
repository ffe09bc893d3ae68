"""Findings with all known facts: bytes, steps, holders, the full stack, and the source."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.recording.call_sites import STACK_COLUMNS
from msmemscope.recording.source_lines import is_foreign_file, site_frame
from msmemscope.reports.html.shown_text import shown
from msmemscope.reports.report_text import relative_path, short_site
from msmemscope.reports.verdict import QUESTION_OF, VerdictKind, named_processes
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.recording import Recording
    from msmemscope.reports.html.source_excerpts import SourceExcerpts
    from msmemscope.reports.run_summary import ProcessSummary
    from msmemscope.reports.verdict import Verdict

_MOST_SITES: Final = 50
"""Call sites of a finding that are described."""
_MOST_OPERATORS: Final = 6
_MOST_FRAMES: Final = 200
_MOST_LETTERS: Final = 2000
"""Of a chain of references, or of a sentence."""


@dataclasses.dataclass(frozen=True)
class FoundSite:
    """The facts of one process about a call site with a finding."""

    kind: VerdictKind
    site: str
    path: str
    """The frames of the program, the innermost first; empty if they are not known."""
    facts: tuple[tuple[str, str], ...]
    """The known facts, each with its heading."""
    python_stack: str = ""
    native_stack: str = ""
    pool: int | None = None
    """Of the blocks that were found; None where the finding is about no pool."""
    held_by: str = ""
    """The chain of references that holds them; empty if it is not known."""


def found_sites(recording: Recording, process: ProcessSummary) -> list[FoundSite]:
    """Describe every call site of the findings of a process.

    Args:
        recording: The process.
        process: Its findings.
    """
    stacks = _Stacks(recording)
    return [
        *_leaks(process, stacks),
        *_slow_leaks(process, stacks),
        *_out_of_memory(process, stacks),
        *_overwritten(process, stacks),
        *_declared_writes(process, stacks),
        *_inefficient(process, stacks),
    ]


def finding_content(
    found: Sequence[Verdict], sites: dict[ProcessSummary, list[FoundSite]], excerpts: SourceExcerpts
) -> list[dict[str, Any]]:
    """Return the findings of all processes for JSON, the gravest first.

    Args:
        found: By `verdicts`.
        sites: The facts of each process.
        excerpts: Gets the lines of source.
    """
    names_process = len(sites) > 1
    contents = []
    for number, verdict in enumerate(found):
        at = _sites_of(verdict)
        identity = _identity(number)
        contents.append(
            {
                "id": identity,
                "kind": verdict.kind.value,
                "sentence": shown(verdict.sentence(names_process=names_process), _MOST_LETTERS),
                "command": shown(verdict.command(relative_path(verdict.processes[0].directory)), _MOST_LETTERS),
                "processes": named_processes(verdict.processes) if names_process else "",
                "sites": [
                    {"id": _card(identity, place), **_site_content(verdict, site, size, sites, excerpts)}
                    for place, (site, size) in enumerate(at[:_MOST_SITES])
                ],
                "more_sites": max(len(at) - _MOST_SITES, 0),
            }
        )
    return contents


def cards_of_sites(found: Sequence[Verdict]) -> dict[tuple[str, str], str]:
    """Return where in the findings a call site is described: the question that found it and its text, to the card's id.

    Args:
        found: By `verdicts`.
    """
    cards: dict[tuple[str, str], str] = {}
    for number, verdict in enumerate(found):
        for place, (site, _) in enumerate(_sites_of(verdict)[:_MOST_SITES]):
            if site:
                cards.setdefault((QUESTION_OF[verdict.kind], shown(site)), _card(_identity(number), place))
    return cards


def _sites_of(verdict: Verdict) -> tuple[tuple[str, int], ...]:
    """The call sites of a finding, the worst first, with their bytes."""
    return verdict.bytes_by_site or ((verdict.site, verdict.size_bytes),)


def _identity(number: int) -> str:
    return f"finding-{number + 1}"


def _card(finding: str, place: int) -> str:
    return f"{finding}-{place + 1}"


def _site_content(
    verdict: Verdict, site: str, size: int, sites: dict[ProcessSummary, list[FoundSite]], excerpts: SourceExcerpts
) -> dict[str, Any]:
    """The card of one call site; of several processes, as the worst one knows it."""
    process, known = next(
        (
            (process, one)
            for process in verdict.processes
            for one in sites.get(process, ())
            if (one.kind, one.site) == (verdict.kind, site) and one.pool in {None, verdict.pool}
        ),
        (verdict.processes[0], FoundSite(verdict.kind, site, "", ())),
    )
    is_merged = len(verdict.processes) > 1
    advice = (("remedy", verdict.remedy),) if verdict.remedy and (site, size) == _sites_of(verdict)[0] else ()
    what = "saved by fixing all of it" if verdict.kind is VerdictKind.INEFFICIENT else "bytes"
    total = ((f"{what}, all together" if is_merged else what, format_bytes(size)),) if size else ()
    if is_merged and known.facts:
        total = (*total, ("below", f"what is known of {named_processes([process])}"))
    frames = list(_frames(known, excerpts))
    native = [shown(line) for line in known.native_stack.splitlines()[:_MOST_FRAMES]]
    return {
        "label": shown(short_site(site)) if site else "",
        "facts": [
            [heading, shown(value, _MOST_LETTERS)] for heading, value in (*advice, *total, *known.facts) if value
        ],
        "source": excerpts.number(site) if site else None,
        "holder": _holder(known.held_by, frames),
        "frames": frames,
        "more_frames": max(len((known.python_stack or known.path).splitlines()) - len(frames), 0),
        "native": native,
        "more_native": max(len(known.native_stack.splitlines()) - len(native), 0),
    }


def _frames(known: FoundSite, excerpts: SourceExcerpts) -> Iterator[dict[str, Any]]:
    """The whole stack, the innermost frame first; where it is not known, the frames of the program."""
    lines = (known.python_stack or known.path).splitlines()[:_MOST_FRAMES]
    blamed = site_frame(known.site)
    is_found = False
    for line in lines:
        frame = site_frame(line)
        is_blamed = not is_found and blamed is not None and frame is not None and frame[:2] == blamed[:2]
        is_found = is_found or is_blamed
        is_foreign = frame is not None and is_foreign_file(frame.file)
        yield {
            "text": shown(line),
            "source": None if is_foreign else excerpts.number(line),
            "is_foreign": is_foreign,
            "is_blamed": is_blamed,
        }


def _holder(held_by: str, frames: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The frame of the function whose variable holds the leaked blocks, if it called the blamed line for them.

    A function often keeps memory that is made far below it: the layers of a model make the graph of a loss. Then the
    line to change is in that function, and not the line that allocated.

    Args:
        held_by: `main.history[2] -> autograd graph`, or `Server.answers[254], from answer.self`.
        frames: The innermost first.
    """
    *_, root = held_by.partition(" -> ")[0].split(", from ")
    function = root.partition(".")[0]
    callers = (frame for frame in frames if frame["source"] is not None and site_frame(frame["text"]) is not None)
    found = next((frame for frame in callers if function and frame["text"].endswith(f"): {function}")), None)
    return None if found is None or found["is_blamed"] else {"label": found["text"], "source": found["source"]}


class _Stacks:
    """Texts of stacks by the ids that rows name.

    Args:
        recording: Where they are looked up.
    """

    def __init__(self, recording: Recording) -> None:
        self._python, self._native = recording.python_stacks, recording.native_stacks
        self.recording = recording

    def texts(self, row: dict[str, Any]) -> tuple[str, str]:
        return self._text(self._python, row["python_stack_id"]), self._text(self._native, row["native_stack_id"])

    @staticmethod
    def _text(table: pl.DataFrame, identity: int | None) -> str:
        return str(table.filter(pl.col("id") == identity)["text"].first() or "") if identity else ""


def _leaks(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    if process.leaks is None:
        return
    key = ["device", "pool", "site_id"]
    leaks = process.leaks.step_leaks
    newest = leaks.leaked.unique(key, keep="last", maintain_order=True).select(*key, *_IDS)
    rows = leaks.leaking_sites.sort("leaked_bytes", descending=True).head(_MOST_SITES)
    for row in rows.join(newest, on=key, how="left", maintain_order="left").iter_rows(named=True):
        in_one = row["first_step"] == row["last_step"]
        steps = f"in step {row['first_step']}" if in_one else f"in steps {row['first_step']} to {row['last_step']}"
        facts = (
            ("blocks", format_count(row["leaked_blocks"])),
            ("per step", format_bytes(round(row["growth_bytes_per_step"] or 0))),
            ("steps", f"{steps}: {row['leaking_steps']} of {row['judged_steps']} judged"),
            ("confidence", str(row["confidence"])),
            ("held by", row["held_by"] or ""),
            ("operators", _operators(row["operators"] or ())),
        )
        place = (row["site"] or "", row["site_path"] or "")
        yield FoundSite(VerdictKind.LEAK, *place, facts, *stacks.texts(row), row["pool"], row["held_by"] or "")


def _operators(names: Sequence[str]) -> str:
    """The first operators by name, and how many more there are."""
    more = len(names) - _MOST_OPERATORS
    first = ", ".join(shown(name).removeprefix("torch._ops.") for name in names[:_MOST_OPERATORS])
    return f"{first} and {more} more" if more > 0 else first


def _slow_leaks(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    if process.leaks is None:
        return
    slow, outside = process.leaks.slow_leaks, process.leaks.outside_steps
    unit = "part" if slow.basis is GrowthBasis.PARTS else "step"
    numbers = pl.concat([slow.blocks, outside.blocks])
    blocks = stacks.recording.blocks.filter(pl.col("malloc_sequence").is_in(numbers.implode()))
    known = [stacks.texts(row) for row in blocks.select(_IDS).unique().head(_MOST_SITES).iter_rows(named=True)]
    grown = pl.col("last_bytes") - pl.col("first_bytes")
    sites = pl.concat([slow.sites, outside.sites]).sort(grown, descending=True)
    for row in sites.head(_MOST_SITES).iter_rows(named=True):
        rate = (
            (f"per {unit}", format_bytes(round(row["slope_bytes_per_step"]))),
            ("steps" if unit == "step" else "parts", f"{row['first_step']} to {row['last_step']}"),
        )
        facts = (
            ("alive", f"{format_bytes(row['first_bytes'])} to {format_bytes(row['last_bytes'])}"),
            *((("when", row["phase"]),) if row["phase"] else rate),
            ("by chance", f"{row['significance']:.1e}"),
            ("held by", row["held_by"] or ""),
        )
        path = row["site_path"] or ""
        texts = next((one for one in known if path and set(path.split("\n")) <= _lines(one[0])), ("", ""))
        yield FoundSite(
            VerdictKind.SLOW_LEAK, row["site"] or "", path, facts, *texts, row["pool"], row["held_by"] or ""
        )


def _lines(text: str) -> set[str]:
    return {line.removesuffix(": <module>") for line in text.splitlines()}


def _out_of_memory(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    from msmemscope.reports.out_of_memory_report import asked_for, details

    result = process.overview.out_of_memory if process.overview is not None else None
    for failure in () if result is None else result.failures[-1:]:
        row = stacks.recording.events.filter(pl.col("sequence") == failure.sequence).select(_IDS)
        site = failure.source_line if failure.cause is None else failure.cause.site
        sentences = [
            ("" if number else "what is known", sentence)
            for number, sentence in enumerate(details(failure, with_command=False))
        ]
        facts = (("asked for", asked_for(failure, process.start_ns)), *sentences)
        texts = stacks.texts(row.row(0, named=True)) if row.height else ("", "")
        yield FoundSite(VerdictKind.OUT_OF_MEMORY, site, site, facts, *texts)


def _overwritten(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    if process.watch is None:
        return
    for row in process.watch.unexpected.head(_MOST_SITES).iter_rows(named=True):
        facts = (
            ("what happened", row["sentence"] or ""),
            ("operator", row["operator"] or ""),
            ("bytes that differ", row["ranges"] or ""),
            ("memory of", row["block_site"] or row["name"] or ""),
        )
        site = row["call_site"] or ""
        yield FoundSite(VerdictKind.OVERWRITTEN, site, site, facts, *stacks.texts(row))


def _declared_writes(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    if process.watch is None:
        return
    for row in process.watch.declared.head(_MOST_SITES).iter_rows(named=True):
        facts = (("what happened", row["sentence"]), ("operator", row["operator"] or ""))
        site = row["call_site"] or ""
        yield FoundSite(VerdictKind.DECLARED_WRITE, site, site, facts, *stacks.texts(row))


def _inefficient(process: ProcessSummary, stacks: _Stacks) -> Iterator[FoundSite]:
    if process.inefficient is None:
        return
    findings = process.inefficient.findings
    worst = findings.unique(["device", "pool"], keep="first", maintain_order=True)
    for row in worst.iter_rows(named=True):
        facts = (
            ("worst block", format_bytes(row["size"])),
            ("it alone saves", format_bytes(row["saved_bytes"] or 0)),
            ("kind", (row["kind"] or "").replace("_", " ")),
            ("operators wasted", format_count(row["operators_wasted"] or 0)),
            ("from operator", (row["from_operator"] or "").removeprefix("torch._ops.")),
            ("to operator", (row["to_operator"] or "").removeprefix("torch._ops.")),
        )
        yield FoundSite(
            VerdictKind.INEFFICIENT,
            row["call_site"] or "",
            row["site_path"] or "",
            facts,
            *stacks.texts(row),
            row["pool"],
        )


_IDS: Final = [name for name in STACK_COLUMNS if name != "name_id"]
