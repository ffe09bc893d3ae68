"""Sentences of results in another language: found by their English form, and said anew with the same values.

Sentences are put together all over the analyses, in English, for the terminal as well. A table of phrases says each form
once; a test reads whole pages in the other language and complains about every English word in them.

Catalogues of gettext were weighed for these texts. They say one text in one line, and have no parts that may be lacking.
Some 90 of 220 sentences have such parts, 200 in all, so a catalogue needs an entry for each combination, or pieces of sentences.
Even without that it has 2,000 lines (Babel), against 850 here. Each analysis would return a form and its values, not a
sentence. Chinese needs no plural forms.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE: Final = r"-?[\d,.]+ (?:bytes?|[KMGTPE]iB)"
_COUNT: Final = r"[\d,]+"
_FORMS: Final = {
    "count": _COUNT, "more": _COUNT, "first": _COUNT, "last": _COUNT, "size": _SIZE, "other": _SIZE, "growth": _SIZE, "whole": _SIZE,
    "number": r"[\d.,]+(?:e[-+]\d+)?", "device": r"[a-z]+(?::\d+)?|N/A", "numbers": r"[\d, -]+",
    "asked": rf"(?:at least )?(?:the )?{_SIZE}(?: asked for)?",
}  # fmt: skip
"""The form of values, by their names; all others are any text."""
_SENTENCES: Final = frozenset(
    {"said", "cause", "pool", "who", "call", "subject", "bytes", "asked", "reason", "chain", "site"}
)
"""Values that have words of their own; the rest are names of the program, which stay as they are."""
_LISTS: Final = {"parts": ", ", "sentences": "; "}
"""The text between several such values."""
_MOST_LETTERS: Final = 2000
"""Of a text that is looked at: sentences are no longer."""
_MOST_CELLS: Final = 50
"""Of a row of a table, which can have numbers first; longer lists that do are numbers alone."""
_PIECE: Final = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]|\{(\w+)\}|([^\[\]{}]+)")
"""A part that may be lacking (with one more such part in it), the name of a value, or letters."""
NAMES: Final = frozenset(
    {"id", "target", "kind", "kinds", "links", "command", "file", "lines", "frames", "native", "source", "version"}
)
"""Parts of the document that are names, addresses or source text."""


@dataclasses.dataclass(frozen=True)
class _Phrase:
    """One form of a sentence: the pattern, and the text that is said for it."""

    begin: str
    """Literal text that it begins with: texts that begin otherwise are not looked at closely."""
    form: re.Pattern[str]
    said: str


class Phrases:
    """Says sentences in another language.

    Args:
        texts: Whole texts, and the text that is said for each.
        forms: Sentences with `{names}` of values, and the text that is said for each. Where `[brackets]` stand around a
            part, the sentence may lack it. Then the text lacks the parts in brackets with the same names.
    """

    def __init__(self, texts: Mapping[str, str], forms: Mapping[str, str]) -> None:
        """Compile the forms."""
        self._texts = texts
        self._phrases = [
            _Phrase(re.split(r"[\[{]", form, maxsplit=1)[0], re.compile(_pattern(form), re.DOTALL), said)
            for form, said in forms.items()
        ]
        self.said = functools.lru_cache(maxsize=10_000)(self._said)
        """A text in the other language; as it is, where no phrase is known."""

    def document(self, content: Any) -> Any:
        """Return a document with every sentence in the other language.

        Args:
            content: Values that JSON takes; names, addresses and source text are known by their keys.
        """
        if isinstance(content, str):
            return self.said(content)
        if isinstance(content, dict):
            return {key: value if key in NAMES else self.document(value) for key, value in content.items()}
        if isinstance(content, (list, tuple)) and not (
            len(content) > _MOST_CELLS and isinstance(content[0], (int, float))
        ):
            return [self.document(part) for part in content]
        return content

    def _said(self, text: str) -> str:
        known = self._texts.get(text)
        if known is not None or len(text) > _MOST_LETTERS:
            return known or text
        for phrase in self._phrases:
            match = phrase.form.fullmatch(text) if text.startswith(phrase.begin) else None
            if match is not None:
                return self._filled(phrase.said, match.groupdict())
        return text

    def _filled(self, said: str, values: Mapping[str, str | None]) -> str:
        parts = []
        for optional, name, plain in _PIECE.findall(said):
            if optional:
                is_there = all(values[one] is not None for one in re.findall(r"\{(\w+)\}", optional))
                parts.append(self._filled(optional, values) if is_there else "")
            elif name:
                parts.append(self._value(name, values[name] or ""))
            else:
                parts.append(plain)
        return "".join(parts)

    def _value(self, name: str, value: str) -> str:
        between = _LISTS.get(name)
        if between is not None:
            return between.join(map(self.said, value.split(between)))
        return self.said(value) if name in _SENTENCES else value


def _pattern(form: str) -> str:
    parts = []
    for optional, name, plain in _PIECE.findall(form):
        if optional:
            parts.append(f"(?:{_pattern(optional)})?")
        elif name:
            parts.append(f"(?P<{name}>{_FORMS.get(name, '.+?')})")
        else:
            parts.append(re.escape(plain))
    return "".join(parts)
