"""The report as one HTML page: results become a plain data document, and the page shows it.

Nothing here reads recordings from disk or runs analyses. Texts of the observed program pass `shown_text.shown` on their way
into the document; the page puts them in as text and never as markup.
"""

from __future__ import annotations

from typing import Final

HTML_REPORT_FILE: Final = "report.html"
"""The name of the file where nobody gives it one."""
