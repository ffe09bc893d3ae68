"""The page as a file: one script, one style, a policy that allows these alone, and data that cannot leave their element."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import msmemscope
from msmemscope.launch.html_report import report_parts, report_text
from msmemscope.model.events import EventKind
from msmemscope.recording import Recording
from msmemscope.reports.html.chinese import CHINESE_TEXTS
from msmemscope.reports.html.page import DATA_ID, json_text
from msmemscope.reports.html.shown_text import MOST_LETTERS, shown, shown_code
from msmemscope.reports.html.words import LANGUAGES
from tests.fakes.traces import Trace
from tests.support.nightly import NIGHT

ASSETS = Path(str(msmemscope.__file__)).parent / "reports" / "html"
SOURCES = Path(__file__).parents[4] / "ui" / "src" / "report"
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]><svg onload=alert(1)>",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x07\x00",
    "\u2028\u2029",
    "javascript:alert(1)",
    '" onmouseover="alert(1)',
    "{{7*7}}${7*7}",
)


class Elements(HTMLParser):
    """Every element with its attributes and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._is_open = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self.found.append((tag, dict(attrs), ""))
        self._is_open = True

    def handle_endtag(self, tag: str) -> None:
        """End the last element that began."""
        del tag
        self._is_open = False

    def handle_data(self, data: str) -> None:
        """Add to the text of the last element that began."""
        if self._is_open:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of the elements of one name."""
        return [(attributes, text) for name, attributes, text in self.found if name == tag]

    def data(self) -> dict[str, Any]:
        """The data that the page shows."""
        (text,) = (text for attributes, text in self.named("script") if attributes.get("id") == DATA_ID)
        found: dict[str, Any] = json.loads(text)
        return found


def page_of(*recordings: Recording) -> str:
    """The report about some processes."""
    return report_text(report_parts(recordings, process_count=len(recordings)), source="somewhere")


def leaking(text: str = "", steps: int = 6) -> Recording:
    """A program that keeps a block in each step, in whose every name a text stands."""
    trace = Trace()
    for step in range(steps):
        trace.mark(f"mark {text}")
        trace.malloc(1 << 20, f"/app/{text}train.py(11): keep{text}\n/app/run.py(2): main", operator=f"aten.{text}mm")
        passing = trace.malloc(4096 * (step + 1), native=f"/lib/{text}own.so(f{text}) [0x1]")
        trace.free(passing)
        trace.step()
    trace.add(EventKind.OOM, size=1 << 40, name_id=trace.text("halMemAlloc"))
    recording = trace.recording()
    facts = {"argument": ("python", f"{text}train.py")}
    return dataclasses.replace(recording, facts=facts, coverage=(f"lost {text}",), problems=(f"odd {text}",))


@pytest.fixture(scope="module")
def hostile_page() -> str:
    """The report about a process that wants to be more than text."""
    return page_of(leaking("".join(HOSTILE)))


def test_a_hostile_recording_adds_no_element(hostile_page: str) -> None:
    """The elements are those of the page about a harmless one, with the same attributes."""
    shape = [(tag, tuple(sorted(attributes))) for tag, attributes, _ in Elements(hostile_page).found]
    assert shape == [(tag, tuple(sorted(attributes))) for tag, attributes, _ in Elements(page_of(leaking())).found]
    assert [tag for tag, _ in shape] == [
        "html", "head", "meta", "meta", "meta", "meta", "meta", "title", "style", "body", "noscript", "p", "script", "script",
    ]  # fmt: skip


def test_no_attribute_runs_anything_and_no_address_leads_away(hostile_page: str) -> None:
    """Handlers, inline styles, sources and links: none in the markup, and none in script or style."""
    for _, attributes, _ in Elements(hostile_page).found:
        assert not any(name.startswith("on") or name in {"src", "href", "style", "srcdoc"} for name in attributes)
    for asset in ("report.js", "report.css"):
        text = (ASSETS / "static" / asset).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?:|//[a-z]|@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write", text
        ), asset
        assert not re.search(r"\beval\b|new Function|setAttribute\('style|fetch\(|XMLHttp|import\(", text), asset


def test_the_policy_allows_the_one_script_and_the_one_style(hostile_page: str) -> None:
    """By their hashes; everything else is forbidden."""
    elements = Elements(hostile_page)
    (policy,) = (
        attributes["content"] or ""
        for attributes, _ in elements.named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    (script,) = (text for attributes, text in elements.named("script") if "type" not in attributes)
    ((_, style),) = elements.named("style")
    assert directives == {
        "default-src": "'none'",
        "script-src": hash_of(script),
        "style-src": hash_of(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def hash_of(text: str) -> str:
    """As browsers work it out."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_names_are_shown_as_text_that_steers_nothing(hostile_page: str) -> None:
    """Tags stay readable; control and bidirectional characters do not stay."""
    data = Elements(hostile_page).data()
    assert "</script><script>alert(1)</script>" in data["processes"][0]["title"]
    texts = list(texts_of({name: value for name, value in data.items() if name != "words"}))
    assert all(text.isprintable() for text in texts)
    assert sum("alert(1)" in text for text in texts) > 10


def texts_of(content: object) -> list[str]:
    """Every text within a document."""
    if isinstance(content, str):
        return [content]
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [text for part in parts for text in texts_of(part)]


@given(st.text())
def test_any_text_survives_as_json_within_a_script(text: str) -> None:
    """And no letter of it ends the element or begins another one."""
    written = json_text({"text": text})
    assert not re.search(r"[<>&\u2028\u2029]", written)
    assert json.loads(written) == {"text": text}


@given(st.text(), st.integers(4, 50))
def test_labels_are_printable_and_short(text: str, most: int) -> None:
    """Of a longer one both ends are kept."""
    label = shown(text, most)
    assert label.isprintable()
    assert len(label) <= most
    assert len(shown_code(text, most).expandtabs()) <= most


def test_names_of_megabytes_are_shortened() -> None:
    """The file stays small, and beginning and end of the name can be read."""
    page = page_of(leaking("A" * (3_000_000 if NIGHT else 1_000_000), steps=4))
    assert len(page) < 1_000_000
    assert shown("a" * 3_000_000 + "end").endswith("end")
    assert len(shown("a" * 3_000_000)) == MOST_LETTERS


def test_assets_are_small_and_stay_in_their_elements() -> None:
    """They stand in every report."""
    for name in ("report.js", "report.css"):
        text = (ASSETS / "static" / name).read_text(encoding="utf-8")
        assert len(text) < 40_000
        assert "</" not in text, "it would end its element"
        assert "<!--" not in text, "it would begin a comment of HTML"


def test_every_word_has_a_use_and_every_use_a_word() -> None:
    """The script asks for words by name; those of the page itself are the other ones."""
    script = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.ts"))
    asked = set(re.findall(r"word\(\s*'(\w+)'", script))
    asked |= {"event", "theme_auto", "theme_light", "theme_dark", "tree_peak", "tree_leaked", "time"}  # put together
    for language in LANGUAGES.values():
        assert asked == set(language.words) - {"language", "no_script"}


def test_languages_fill_in_the_same() -> None:
    """Names in braces are the same in each language."""
    english, chinese = LANGUAGES["en"].words, LANGUAGES["zh"].words
    for key, text in english.items():
        assert re.findall(r"{\w+}", text) == sorted(re.findall(r"{\w+}", chinese[key]), key=text.index), key


def test_headings_in_the_sources_have_chinese_words() -> None:
    """Also those of findings that no recording here has."""
    text = "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("question_tables.py", "memory_section.py"))
    headings = set(re.findall(r'TableColumn\("([^"]+)"', text))
    assert len(headings) > 25
    assert headings <= CHINESE_TEXTS.keys()
    facts = set(
        re.findall(r'^            \("([^"]+)", ', (ASSETS / "findings.py").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert len(facts) > 15
    assert facts <= CHINESE_TEXTS.keys()


def test_the_page_is_in_a_language_for_small_screens_and_both_themes() -> None:
    """The page has what readers of screens and printers need."""
    page = page_of(leaking())
    assert '<html lang="en">' in page
    style = (ASSETS / "static" / "report.css").read_text(encoding="utf-8")
    for wanted in (
        "prefers-color-scheme:dark",
        "[data-theme=light]",
        "@media print",
        "prefers-reduced-motion",
        ":focus-visible",
    ):
        assert wanted in style
