"""`make docs`: writes the pages and pictures that are made from the code, or checks that they are current.

Usage: python docs/generate.py [--check | --record]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent))  # the catalogue of programs is the tests'

from generators import (  # noqa: E402
    chinese,
    compatibility_page,
    data_flow_picture,
    demo_recording,
    man_page,
    options_page,
    programs_page,
    questions_page,
)


def generated() -> dict[Path, str]:
    """Every generated file with the content that it should have."""
    return {
        DOCS.parent / "native" / "command" / "msmemscope.1": man_page.page(),
        DOCS / "compatibility.md": compatibility_page.page(),
        DOCS / "compatibility.zh.md": compatibility_page.chinese_page(),
        DOCS / "options.md": options_page.page(),
        DOCS / "options.zh.md": options_page.chinese_page(),
        DOCS / "programs.md": programs_page.page(),
        DOCS / "programs.zh.md": programs_page.chinese_page(),
        DOCS / "questions.md": questions_page.page(),
        DOCS / "questions.zh.md": questions_page.chinese_page(),
        DOCS / "images" / "data-flow.svg": data_flow_picture.picture(data_flow_picture.ENGLISH),
        DOCS / "images" / "data-flow.zh.svg": data_flow_picture.picture(data_flow_picture.CHINESE),
    }


def main() -> int:
    """Write or check; the status is 1 if something was not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if something is not current")
    parser.add_argument(
        "--record", action="store_true", help="run the leaking example first, for the picture of the summary"
    )
    arguments = parser.parse_args()
    if arguments.record:
        recorded = demo_recording.record(DOCS.parent)
        (DOCS / "images" / "summary.txt").write_text(recorded, encoding="utf-8")
        (DOCS / "images" / "summary.svg").write_text(demo_recording.picture(recorded), encoding="utf-8")
    pages = generated()
    for english in chinese.missing():
        print(f"docs/generators/chinese.py has no translation of {english!r}", file=sys.stderr)
    if chinese.missing():
        return 1
    stale = [
        path for path, content in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != content
    ]
    if arguments.check:
        for english in chinese.unused():
            print(f"docs/generators/chinese.py: no page has {english!r} any more", file=sys.stderr)
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is not current: run make docs", file=sys.stderr)
        return 1 if stale or chinese.unused() else 0
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
        print(f"wrote {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
