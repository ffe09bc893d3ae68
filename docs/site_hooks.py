"""The changes that the site makes to pages: links to files that are no pages, and docstrings written for `help()`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LINK_OUT = re.compile(r"\]\(\.\./([^)\s]+)\)")
_LITERAL_FOLLOWS = re.compile(r"::(?=</p>\s*<(?:div|pre)\b)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - by name
    """Let links that leave docs/ lead to the file on the web."""
    return _LINK_OUT.sub(rf"]({str(config.repo_url).rstrip('/')}/blob/main/\1)", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - by name
    """Make one colon of the two that announce code in a docstring."""
    return _LITERAL_FOLLOWS.sub(":", html)
