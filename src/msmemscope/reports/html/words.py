"""The languages of the page: its own words, which the script asks for, and how results are said.

Results are put into words in English. Findings have the words of the summary at the end of a run (`reports.verdict`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.reports.html.chinese import CHINESE, CHINESE_TEXTS
from msmemscope.reports.html.chinese_forms import CHINESE_FORMS
from msmemscope.reports.html.phrases import Phrases

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Language:
    """The words of one language."""

    words: Mapping[str, str]
    """By their use; names in braces are filled in."""
    phrases: Phrases | None = None
    """How the sentences and headings of results are said; None: as they are."""


_ENGLISH: Final = {
    "language": "en",
    "title": "Memory report",
    "skip": "Skip to the findings",
    "theme": "Colours",
    "theme_auto": "as the system",
    "theme_light": "light",
    "theme_dark": "dark",
    "contents": "Contents",
    "in_short": "In short",
    "findings": "Findings",
    "next": "Next:",
    "in_tables": "In tables:",
    "source_of": "Source of {site}",
    "source_of_holder": "Source of {site}, which holds it",
    "no_source": "No source line is known of this.",
    "full_stack": "Full stack ({n} frames)",
    "native_stack": "Native stack ({n} frames)",
    "more_frames": "{n} more frames",
    "other_sites": "{n} more call sites of this finding",
    "more_sites": "{n} more call sites are not in this report; msmemscope analyze lists all of them.",
    "call_site_unknown": "(call site not known)",
    "memory_over_time": "Memory over time",
    "chart_help": "Point at the picture, or focus it and use the arrow keys; Home and End go to its ends, p to the peak. "
    "Vertical lines are the begins of steps, where there is room.",
    "in_use": "in use",
    "least": "least nearby",
    "reserved": "reserved",
    "time": "time",
    "event": "event",
    "step": "step",
    "mark": "mark",
    "failed": "failed allocation",
    "peak": "peak",
    "owners_at_peak": "Owners at the peak",
    "lines_at_peak": "Call sites at the peak",
    "by_stack": "By call stack",
    "tree_peak": "in use at the peak",
    "tree_leaked": "leaked",
    "tree_help": "Click, or press Enter, to zoom in; Escape zooms out; arrow keys walk through the stack.",
    "zoom_out": "Show all",
    "share": "{percent} of {whole}",
    "blocks": "{n} blocks",
    "block": "1 block",
    "show_all": "Show all {n} rows",
    "show_fewer": "Show fewer",
    "more_rows": "{n} more rows are not in this report; msmemscope analyze has all of them.",
    "sort_by": "sort by {column}",
    "more_marks": "{n} more marks are not drawn.",
    "more_failures": "{n} earlier failed allocations are not drawn.",
    "not_answered": "No answer:",
    "limits": "Left out here",
    "nothing_here": "Nothing.",
    "processes_more": "{n} more processes have no section of their own here; name their folders to get one.",
    "made_by": "Written by msmemscope {version} from {source}.",
    "no_script": "This page shows its data with a script of its own, which is not allowed to run here.",
}

LANGUAGES: Final = {"en": Language(_ENGLISH), "zh": Language(CHINESE, Phrases(CHINESE_TEXTS, CHINESE_FORMS))}
"""By the word that `--language` takes."""
