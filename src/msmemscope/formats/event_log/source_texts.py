"""`source_lines.json` beside the segments of an event log: the text of each line that allocated, as it was when the run ended.

People mend a program and run it again: then the number of a line says little, and its text says which line it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msmemscope.recording.source_files import NoSourceError, read_source
from msmemscope.recording.source_lines import is_foreign_file, is_library_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.formats.event_log.capture import Capture

_LONGEST_LINE: Final = 200
"""Characters of a line that are kept."""
_MOST_LINES: Final = 100_000


def source_lines_text(capture: Capture) -> str | None:
    """Return the lines of the program's own files that stacks of a capture name, as JSON.

    Args:
        capture: Of a process that has ended.

    Returns:
        An object of files, each an object of numbers of lines and their text; None without any. A file that was changed since
        the process began is left out.
    """
    files: dict[str, set[int]] = {}
    for file, line in capture.python_lines():
        if not is_foreign_file(file) and not is_library_file(file):
            files.setdefault(file, set()).add(line)
    found: dict[str, dict[str, str]] = {}
    count = 0
    for file, numbers in files.items():
        try:
            source = read_source(file)
        except NoSourceError:
            continue  # its lines are compared by their numbers
        if source.changed_ns > capture.header.start_ns:
            continue
        chosen = [number for number in sorted(numbers) if 0 < number <= len(source.lines)]
        count += len(chosen)
        if count > _MOST_LINES:
            break
        found[file] = {str(number): source.lines[number - 1].strip()[:_LONGEST_LINE] for number in chosen}
    return f"{json.dumps(found)}\n" if found else None


def read_source_lines(content: bytes) -> Mapping[tuple[str, int], str]:
    """Read the texts of lines back, by file and number.

    Args:
        content: Of the file; empty for none.

    Returns:
        None of a damaged one: then lines are known by their numbers alone.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return dict(_lines(found)) if isinstance(found, dict) else {}


def _lines(content: dict[str, Any]) -> list[tuple[tuple[str, int], str]]:
    return [
        ((file, int(number)), text)
        for file, lines in content.items()
        if isinstance(lines, dict)
        for number, text in lines.items()
        if number.isdecimal() and len(number) < len("1" * 10) and isinstance(text, str)
    ]
