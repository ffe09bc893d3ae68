"""The findings of a process, as the report has them, and the lines of source that stacks name."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Final

from msmemscope.errors import MissingInputError, UsageError
from msmemscope.recording.source_files import is_source_name
from msmemscope.recording.source_lines import site_frame, stack_frames
from msmemscope.reports.html.shown_text import shown
from msmemscope.reports.html.source_excerpts import SourceExcerpts
from msmemscope.reports.html.words import LANGUAGES
from msmemscope.reports.verdict import QUESTION_OF, VerdictKind

if TYPE_CHECKING:
    from msmemscope.view.queries.process_view import ProcessView

_SEVERITIES: Final = {
    VerdictKind.INEFFICIENT.value: "warning",
    VerdictKind.DECLARED_WRITE.value: "warning",
    "nothing": "good",
}
"""Of kinds of sentences; of all others `bad`."""
_LINES_AROUND: Final = 8


@functools.lru_cache(maxsize=64)
def _document(process: ProcessView, language: str) -> dict[str, Any]:
    """The findings, in the words of a language."""
    phrases = LANGUAGES[language].phrases
    return process.document if phrases is None else phrases.document(process.document)


def verdicts_of(process: ProcessView, language: str) -> list[dict[str, Any]]:
    """Return the sentences that are read first, in one of LANGUAGES; `api/verdicts` in ui/PROTOCOL.md."""
    document = _document(process, language)
    findings = {finding["id"]: finding for finding in document["findings"]}
    sentences = []
    for sentence in document["verdicts"]:
        finding = findings.get(sentence["target"])
        links = [] if finding is None else [_link(document, finding, site) for site in finding["sites"]]
        sentences.append(
            {
                "process": process.number,
                "severity": _SEVERITIES.get(sentence["kind"], "bad"),
                "text": sentence["text"],
                "detail": "" if finding is None else finding["command"],
                "links": [link for link in links if link["text"]],
            }
        )
    sentences.extend(
        {"process": process.number, "severity": "note", "text": fact["text"], "detail": "", "links": []}
        for fact in document["facts"]
    )
    return sentences


def _link(document: dict[str, Any], finding: dict[str, Any], site: dict[str, Any]) -> dict[str, Any]:
    source = None if site["source"] is None else document["sources"][site["source"]]
    return {
        "text": site["label"],
        "table": QUESTION_OF[VerdictKind(finding["kind"])],
        "site": None if source is None else f"{source['file']}({source['line']})",
        "facts": site["facts"],
        "frames": site["frames"],
    }


def findings_of(process: ProcessView, language: str) -> list[dict[str, Any]]:
    """Return the tables of the questions, in one of LANGUAGES; `api/findings` in ui/PROTOCOL.md."""
    (content,) = _document(process, language)["processes"]
    return [
        {
            "question": answer["id"].rpartition("-")[0],
            "title": answer["title"],
            "summary": answer["summary"],
            "missing": answer["missing"],
            "tables": [_table(table) for table in answer["tables"]],
        }
        for answer in content["answers"]
    ]


def _table(table: dict[str, Any]) -> dict[str, Any]:
    kinds = table["kinds"]
    place = kinds.index("site") if "site" in kinds else None
    return {
        "title": table["title"],
        "note": table["note"],
        "more": table["more"],
        "columns": [{"label": heading, "kind": kind} for heading, kind in zip(table["headings"], kinds, strict=True)],
        "rows": table["rows"],
        "sites": [
            None if place is None or site_frame(row[place] or "") is None else row[place] for row in table["rows"]
        ],
    }


def source_lines(process: ProcessView, site: str) -> dict[str, Any]:
    """Return the lines of source around a call site; `api/source` in ui/PROTOCOL.md.

    Raises:
        UsageError: It names no line.
        MissingInputError: No stack of the recording names the line, or the file is no source text.
    """
    frame = site_frame(site)
    if frame is None:
        message = "names no line"
        raise UsageError(message, option="site", value=site, accepted="file(line): function, or file(line)")
    file = _named_lines(process).get((shown(frame.file), frame.line))
    if file is None:
        message = "no stack of this recording names this line"
        raise MissingInputError(message)
    # A link of a harmless name, which came with the recording, must not lead to another file.
    if not is_source_name(os.path.realpath(file)):
        message = f"{shown(file)} leads to no file of source text"
        raise MissingInputError(message)
    excerpts = SourceExcerpts(process.facts["begin_ns"], _LINES_AROUND)
    excerpts.number(f"{file}({frame.line})")
    (content,) = excerpts.content()
    return dict(content)


@functools.lru_cache(maxsize=16)
def _named_lines(process: ProcessView) -> dict[tuple[str, int], str]:
    """Every line that a Python stack names, as the page has it, and its file."""
    lines = {line for text in process.index.texts("texts/python/texts") for line in text.splitlines()}
    return {(shown(frame.file), frame.line): frame.file for line in lines for frame in stack_frames(line)}
