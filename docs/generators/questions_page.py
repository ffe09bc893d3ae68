"""docs/questions.md, from the registry of questions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from generators import chinese
from msmemscope.analysis.options import option_words
from msmemscope.questions import QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.questions import Question

HEAD = """\
# Questions

<!-- Generated from src/msmemscope/questions.py by `make docs`; do not edit. -->

Each can be asked of any input, on the command line, of a `Recording` and by name:

```python
import msmemscope

msmemscope.analyze("leaks", input_path="memscopeDumpResults/msmemscope_4242_20240101120000_ascend")
result = msmemscope.load("memscope_dump.csv").ask("peak", device="npu:0")
```

`msmemscope.analyze` prints the report and returns the result. `Recording.ask` prints and writes nothing. You find the inputs and the
contents of results in [analyses.md](analyses.md).

Every question takes `--json`, and `--frames=N`: call sites in tables stand with so many frames of the program's stack. Questions with
findings take `--fail-on-findings`. With several processes, they end with the findings at each call site of all of them (`merged` in
JSON).
"""


def page() -> str:
    """The page as Markdown."""
    return HEAD + "".join(_section(question, str) for question in QUESTIONS.values())


def chinese_page() -> str:
    """The same in Chinese."""
    head = chinese.QUESTIONS_HEAD.replace("{example}", HEAD.partition("```python\n")[2].partition("```")[0])
    return head + "".join(_section(question, chinese.text) for question in QUESTIONS.values())


def _section(question: Question[Any, Any], text: Callable[[str], str]) -> str:
    words_of = option_words(question.options)
    usage = [f"msmemscope analyze {question.name}"]
    usage += [
        f"[{words.spelling}{'=' if words.accepted.metavar else ''}{words.accepted.metavar}]"
        for words in words_of.values()
        if words.spelling
    ]
    gate = "" if question.findings is None else " [--fail-on-findings]"
    parts = [
        f"\n## `{question.name}`\n\n{text(question.summary)}\n\n```text\n{' '.join(usage)} [--json]{gate} PATH\n```\n"
    ]
    if words_of:
        headings = map(text, ("in Python", "default", "on the command line"))
        parts.append(f"\n| {' | '.join(headings)} | |\n|---|---|---|---|\n")
    for field in dataclasses.fields(question.options):
        words = words_of[field.name]
        spelling = f"`{words.spelling}`" if words.spelling else ""
        parts.append(f"| `{field.name}` | `{field.default!r}` | {spelling} | {text(words.summary)} |\n")
    return "".join(parts)
