"""Texts of the observed program in cells of CSV files, as spreadsheets shall take them: as text.

A spreadsheet runs a cell that begins as a formula does (`=cmd|...`), even with quotes around it in the file. So an
apostrophe is put in front of such a text: spreadsheets take it for "this is text". Readers of the file take it away
again. A text that begins with apostrophes and then as a formula gets one more, so that nothing is lost. Numbers are not
concerned, and neither are databases, which no spreadsheet opens by itself.
"""

from __future__ import annotations

import re
from typing import Final

FORMULA: Final = r"'*(?:[\x00-\x20\x7f-\xa0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])"
"""The beginning of a text that spreadsheets can take for a formula. Some cut off blanks and control characters in
front. Some also read the wide signs of East Asian keyboards.
"""

_FORMULA: Final = re.compile(FORMULA)
_MARK: Final = "'"


def cell_of_text(text: str) -> str:
    """Return the cell of a text."""
    return f"{_MARK}{text}" if _FORMULA.match(text) else text


def text_of_cell(cell: str) -> str:
    """Return the text that `cell_of_text` was given."""
    return cell[1:] if cell.startswith(_MARK) and _FORMULA.match(cell, 1) else cell
