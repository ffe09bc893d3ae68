"""English prose of pages and docstrings: short sentences, plain subjects.

CONTRIBUTING.md also has the rules that no test can measure.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = ("", "docs", "native", "ui", "vnpu")
PAGES = [str(page.relative_to(ROOT)) for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))]
ENGLISH = [page for page in PAGES if not page.endswith((".zh.md", ".zh-CN.md"))]

CODE = ("benchmarks", "docs", "examples", "src", "tests", "vnpu")

MOST_WORDS = 25
FORMS = re.compile(r"\b(of which|that is to say|but for)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_][\w'/.-]*")
_CODE = re.compile(r"(`+).+?\1")


def texts_of(page: str) -> Iterator[tuple[int, str, bool]]:
    """Each paragraph, list item and entry of a cell with its line, and whether it may ask without a question mark."""
    fence, table, start, paragraph = False, False, 0, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        item = re.match(r"\s*([-*+]|\d+\.)\s+", line)
        is_code = fence or (line.startswith("    ") and not paragraph and not item)
        if paragraph and (item or not line.strip() or re.match(r"\s*(```|[|#]|<!--|:::)", line)):
            yield start, paragraph, False
            paragraph = ""
        if re.match(r"\s*```", line):
            fence = not fence
        elif line.startswith("|") and not fence:
            for column, cell in enumerate(re.split(r"(?<!\\)\|", line.strip()[1:-1])):
                for entry in re.split(r"(?<=;) ", cell.strip()):
                    yield number, entry, not table or column == 0 or not cell.strip().startswith(entry)
        elif line.startswith("#") and not fence:
            yield number, line.lstrip("# "), True
        elif line.strip() and not is_code and not line.startswith(("<!--", ":::")):
            start = start if paragraph else number
            paragraph = f"{paragraph} {line[item.end() if item else 0 :].strip()}".strip()
        table = line.startswith("|")


def findings(page: str) -> Iterator[str]:
    """Line, rule and sentence of each that breaks a rule. A list of names in code is no sentence."""
    for line, text, may_ask in texts_of(page):
        shown = _CODE.sub(lambda code: code[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", shown).replace("*", "")
        for sentence in re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)[\"')]* +", shown):
            words = len(_WORD.findall(_CODE.sub("X", sentence)))
            if words > MOST_WORDS and _WORD.search(_CODE.sub("", sentence)):
                yield f"{line}: {words} words, at most {MOST_WORDS}: {sentence}"
            if re.match(r"\W*what\b", sentence, re.IGNORECASE) and not (may_ask or sentence.endswith("?")):
                yield f"{line}: the subject begins with 'What': {sentence}"
            yield from (f"{line}: '{form}': {sentence}" for form in FORMS.findall(_CODE.sub("X", sentence)))


def test_each_rule_is_found_where_it_is_broken() -> None:
    """Code is one word, a cell and a list item are sentences of their own, blocks of code and questions are left alone."""
    long = " ".join(["word"] * 26)
    page = (
        f"# What to do\n\n{long}.\n\n- What follows is one.\n- {long}\n\n| what |\n|---|\n| what it is |\n| {long} |\n"
    )
    page += f"\n```text\n{long}\n```\n\n    {long}\n\nWhat now? Three, all of which\nfit. `{long}` is code.\n"
    assert [re.sub(r": [^:]*$", "", finding) for finding in findings(page)] == [
        "3: 26 words, at most 25", "5: the subject begins with 'What'", "6: 26 words, at most 25",
        "11: 26 words, at most 25", "19: 'of which'",
    ]  # fmt: skip


@pytest.mark.parametrize("page", ENGLISH)
def test_sentences_are_short_and_plain(page: str) -> None:
    """At most 25 words, no subject that begins with "What", none of the forms that take a second reading."""
    found = [f"{page}:{finding}" for finding in findings((ROOT / page).read_text(encoding="utf-8"))]
    assert not found, "\n".join([f"{len(found)} sentences break the rules of CONTRIBUTING.md", *found])


def docstrings(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a module, those of attributes too; an argument is an item of a list."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, re.sub(r"(?m)^    \**\w+: ", "- ", inspect.cleandoc(text))


def test_docstrings_are_read_as_pages() -> None:
    """Modules, functions, attributes; the name of an argument is no word of its sentence."""
    code = '"""What it is."""\n\nmost = 3\n"""So many."""\n\ndef walk():\n    """Walk.\n\n    Args:\n        what: Two.\n    """\n'
    assert list(docstrings(code)) == [
        (1, "What it is."), (4, "So many."), (7, "Walk.\n\nArgs:\n- Two."),
    ]  # fmt: skip


@pytest.mark.parametrize("folder", CODE)
def test_docstrings_are_short_and_plain(folder: str) -> None:
    """The rules of the pages, for the docstrings of the files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z", f"{folder}/*.py"], cwd=ROOT, check=True, capture_output=True)
    found = [
        f"{name}:{start + int(line) - 1}:{finding}"
        for name in filter(None, listed.stdout.decode().split("\0"))
        if (ROOT / name).exists()
        for start, text in docstrings((ROOT / name).read_text(encoding="utf-8"))
        for line, _, finding in (one.partition(":") for one in findings(text))
    ]
    assert not found, "\n".join([f"{len(found)} sentences break the rules of CONTRIBUTING.md", *found])
