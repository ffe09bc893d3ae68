"""The page: one file that needs nothing else, and whose data cannot make it do anything.

Data stand in it as JSON that no parser of HTML can leave early. Only the one script whose hash the policy names may
run, and it puts texts in as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.reports.html.words import Language

GENERATOR: Final = '<meta name="generator" content="msmemscope report">'
"""By which a page is known to be ours."""
DATA_ID: Final = "report-data"
"""The element that holds the data."""
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def report_page(document: Mapping[str, Any], language: Language) -> str:
    """Return the whole page.

    Args:
        document: The results, in types that JSON takes.
        language: That it is shown in.
    """
    words = language.words
    content = document if language.phrases is None else language.phrases.document(dict(document))
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{_attribute(words["language"])}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"{GENERATOR}\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_attribute(words['title'])}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<noscript><p>{_attribute(words['no_script'])}</p></noscript>\n"
        f'<script type="application/json" id="{DATA_ID}">{json_text({"words": words, **content})}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def json_text(content: object) -> str:
    """Return JSON that can stand in a script element: letters beyond ASCII and brackets of tags are escaped.

    Args:
        content: Values that JSON takes; numbers are finite.
    """
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _asset(name: str) -> str:
    """A file that `make ui` builds of `ui/src/report`."""
    return resources.files(__package__).joinpath("static").joinpath(name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """The source expression of a policy that allows one inline element with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
