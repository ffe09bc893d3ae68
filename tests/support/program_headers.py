"""Headers of programs that know the truth about themselves: lines `# field: literal`, and marks at the lines to blame."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_FIELD: Final = re.compile(r"# (\w+): (.+)")
_BLAMED: Final = re.compile(r"#\s*BLAME\b")


class ProgramHeader(NamedTuple):
    """The facts that a program states about itself."""

    fields: dict[str, Any]
    lines: frozenset[int]
    """To blame, from 1; any of them counts."""

    @property
    def mebibytes(self) -> tuple[float, float] | None:
        """Between which an amount lies; None where no amount is sensible."""
        amounts = self.fields["mebibytes"]
        return (float(amounts[0]), float(amounts[1])) if amounts else None


def read_header(path: Path) -> ProgramHeader:
    """Read the header of a program, without importing it.

    Args:
        path: Of its source.

    Raises:
        ValueError: A value is no Python literal.
    """
    text = path.read_text(encoding="utf-8").splitlines()
    fields = {}
    for line in text:
        match = _FIELD.fullmatch(line)
        if match is None:
            break
        fields[match[1]] = ast.literal_eval(match[2])
    return ProgramHeader(fields, frozenset(number for number, line in enumerate(text, 1) if _BLAMED.search(line)))
