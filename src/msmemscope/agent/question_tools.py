"""A tool for each question, made from the registry: a new question is a new tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.agent.bounded_answer import OfRecording
from msmemscope.agent.parameters import PATH, PROCESS, option_parameters, option_values
from msmemscope.agent.tool import Tool
from msmemscope.errors import MsmemscopeError, UsageError
from msmemscope.launch.faults import faults_as_errors
from msmemscope.questions import QUESTIONS, options_of
from msmemscope.reports.merged_findings import merged_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.agent.loaded_recordings import LoadedRecordings
    from msmemscope.questions import Question

_EACH = "Answers for each process at the path."
_MERGED = "`merged` has what was found at each call site of all of them."
_UNANSWERED = "Where is_answered is false, result.coverage.missing says what was not recorded: that is not the same as nothing found."


def question_tools() -> list[Tool]:
    """Return a tool for each of `QUESTIONS`."""
    return [_tool(question) for question in QUESTIONS.values()]


def _tool(question: Question[Any, Any]) -> Tool:
    description = " ".join(
        [question.summary, _EACH, *([_MERGED] if question.findings is not None else []), _UNANSWERED]
    )
    return Tool(
        question.name,
        description,
        (PATH, PROCESS, *option_parameters(question)),
        lambda recordings, given: _asked(question, recordings, given),
    )


def _asked(question: Question[Any, Any], recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    values = option_values(question, given)
    try:
        options = options_of(question, values)  # judged before anything is read
    except TypeError as error:
        raise UsageError(str(error)) from error
    processes: list[object] = []
    failures: list[MsmemscopeError] = []
    found = []
    ranks: list[int | None] = []
    for recording in recordings.chosen(given["path"], given.get("process")):
        try:
            with faults_as_errors(during=f"{question.name} of {recording.source}", send=recording.source):
                question.check(recording, options)
                result = question.examine(recording, options)
                content = question.content(result, recording)
                if question.findings is not None:
                    found.append((recording.process_id, question.findings(result)))
                    ranks.append(recording.place.rank)
        except MsmemscopeError as error:
            failures.append(error)
            continue
        processes.append(
            {
                "process_id": recording.process_id,
                "place": recording.place.content(),
                "source": recording.source,
                "is_answered": result.coverage.is_answered,
                "result": OfRecording(content, recording),
                "coverage": recording.coverage,
                "problems": recording.problems,
            }
        )
    if failures and not processes:
        raise failures[0]
    answer: dict[str, object] = {"question": question.name}
    if failures:
        answer["failures"] = [failure.message for failure in failures]
    if len(found) > 1:
        answer["merged"] = merged_content(question.merge(found, ranks))
    return {**answer, "processes": processes}
