"""The site of the documentation: links and anchors lead somewhere, every page has its Chinese twin, and it builds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import msmemscope

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH = sorted(page for page in DOCS.glob("*.md") if not page.name.endswith(".zh.md"))
CHINESE = sorted(DOCS.glob("*.zh.md"))

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def twin(page: Path) -> Path:
    """The same page in Chinese."""
    return page.with_name(f"{page.stem}.zh.md")


def prose(page: Path) -> str:
    """The text of a page without its fences."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The targets of links within a page: its headings, as anchors by the rules of mkdocs.yml, and its calls."""
    text = prose(page)
    headings = (
        re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE)
    )
    return {heading.replace(" ", "-") for heading in headings} | set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


def test_every_page_has_its_chinese_twin() -> None:
    """And no twin stands alone."""
    expected = {twin(page).name for page in ENGLISH}
    found = {page.name for page in CHINESE}
    assert found >= expected, f"write docs/{', docs/'.join(sorted(expected - found))}; generated ones: make docs"
    assert found <= expected, f"no English page has {sorted(found - expected)} as its twin: remove it, or rename it"


@pytest.mark.parametrize("page", [page for page in ENGLISH if twin(page).exists()], ids=lambda page: page.stem)
def test_both_languages_say_the_same(page: Path) -> None:
    """The same headings, fences, rows of tables, links and calls, in the same order: what is run of one is true of both."""
    chinese = twin(page)
    assert re.search(r"[\u4e00-\u9fff]", chinese.read_text(encoding="utf-8")), (
        f"{chinese.name} is not Chinese: write it"
    )
    remedy = f"write into {chinese.name} what {page.name} has; if their head says that they are generated: make docs"
    for what, pattern in {
        "headings": r"^(#+) ",
        "rows": r"^(\|)",
        "calls": r"^(::: \S+)",
        "links": r"\]\(([^)#\s]+)",
    }.items():
        expected = re.findall(pattern, prose(page), re.MULTILINE)
        found = re.findall(pattern, prose(chinese), re.MULTILINE)
        if what == "links":  # their order is that of the language
            expected, found = sorted(expected), sorted(found)
        assert found == expected, f"{what} of {chinese.name} differ: {remedy}"
    fences = [_FENCE.findall(one.read_text(encoding="utf-8")) for one in (page, chinese)]
    assert fences[0] == fences[1], f"fences of {chinese.name} differ: {remedy}"


@pytest.mark.parametrize("page", [*ENGLISH, *CHINESE], ids=lambda page: page.name)
def test_links_lead_to_a_heading(page: Path) -> None:
    """Pages and anchors; other files are looked for by test_docs.py. A twin's link to NAME.md leads to the twin of that."""
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)", prose(page)):
        there = page.parent / target if target else page
        if page in CHINESE and target and twin(there).exists():
            there = twin(there)
        assert anchor in anchors(there), (
            f"{page.name} links to {target}#{anchor}: {there.name} has no such heading; mend the link, or the heading"
        )


def test_every_page_is_in_the_navigation() -> None:
    """A page that nothing leads to is not read."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    found = sorted(re.findall(r"^ +- (\S+\.md)$", navigation, re.MULTILINE))
    assert found == [page.name for page in ENGLISH], (
        "a page is a line of nav in mkdocs.yml: add it there, or take it off"
    )


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    """Once in a table, with the first sentence of its docstring, and once where its arguments are shown."""
    modules = ("analyzer", "describe", "tracer", "watcher")
    names = {f"msmemscope.{name}" for name in msmemscope.__all__ if name not in {"__version__", *modules}}
    names |= {"msmemscope.describe.describer", "msmemscope.tracer.start", "msmemscope.tracer.stop"}
    names |= {"msmemscope.watcher.watch", "msmemscope.watcher.remove"}
    for module in modules:
        for name in getattr(msmemscope, module).__all__:
            assert f"msmemscope.{module}.{name}" in names or f"msmemscope.{name}" in names
    page = prose(DOCS / "python.md")
    called = sorted(re.findall(r"^::: (\S+)", page, re.MULTILINE))
    remedy = "give docs/python.md and docs/python.zh.md a row in a table and a `:::` line for each public name"
    assert called == sorted(names), remedy
    rows = dict(re.findall(r"^\| \[`(\S+)`\]\(#\S+\) \| (.*) \|$", page, re.MULTILINE))
    for name in names:
        found: object = msmemscope
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        first = " ".join((found.__doc__ or "").partition("\n\n")[0].split())
        expected = re.split(r"\.(?:\s|$)", first, maxsplit=1)[0]
        assert rows.get(name) == expected, (
            f"the row of {name} in docs/python.md is not its docstring's first sentence: {expected}"
        )


def test_the_site_builds(tmp_path: Path) -> None:
    """Without a warning: links, anchors, names of the Python API. Both languages are there, and search knows Chinese."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed: make test and make site install it")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{run.stdout}{run.stderr}mend what is named; make site builds it again"
    for page in ENGLISH:
        place = "" if page.stem == "index" else f"{page.stem}/"
        assert (tmp_path / "site" / place / "index.html").is_file()
        assert (tmp_path / "site" / "zh" / place / "index.html").is_file()
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    words = re.split(index["config"]["separator"], " ".join(part["text"] for part in index["docs"]))
    assert {"memory", "内存"} <= set(words)
