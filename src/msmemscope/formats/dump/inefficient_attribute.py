"""The attribute `inefficient_type` inside the text of an Attr field; everything else of the text stays as it is.

MindStudio msMemScope writes the key like that; older documents call it `inefficient`. Both are replaced.
"""

from __future__ import annotations

import re
from typing import Final

KEY: Final = "inefficient_type"

_KINDS: Final = r"(?:early_allocation|late_deallocation|temporary_idleness)"
# Owner labels are free text: only a value that this key can have, up to the next key or the end, is one of ours.
_IN_BRACES: Final = re.compile(
    rf"(?P<before>[{{,])\s*inefficient(?:_type)?:{_KINDS}?(?:,{_KINDS})*(?=,\s*\w+:|\s*}}|\s*$)"
)
_IN_JSON: Final = re.compile(r'(?P<before>[{,])\s*"inefficient(?:_type)?"\s*:\s*"(?:[^"\\]|\\.)*"\s*(?=[,}])')


def with_inefficient_type(attributes: str, kinds: str) -> str:
    """Put the kinds of a block into its attributes, instead of those that may be there.

    Args:
        attributes: Text of an Attr field, `{key:value,...}`, the same as JSON, or nothing. A pair of quotes around all
            of it, which some dumps have, stays.
        kinds: Comma-separated kinds; empty to leave the block without any.

    Returns:
        The new text. The key goes behind all others.
    """
    text = attributes.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return f'"{_with_inefficient_type(text[1:-1], kinds)}"'
    return _with_inefficient_type(attributes, kinds)


def _with_inefficient_type(attributes: str, kinds: str) -> str:
    text = attributes.strip()
    is_json = text.startswith('{"') or text == "{}"
    added = (f'"{KEY}":"{kinds}"' if is_json else f"{KEY}:{kinds}") if kinds else ""
    if added and "inefficient" not in text and len(text) > len("{}") and text[-1] == "}":
        return f"{text[:-1]},{added}}}"  # as it is with most
    if added and text.endswith(f",{added}}}") and text.count("inefficient") == 1:
        return text  # as it is with most of a dump that was asked before
    pattern = _IN_JSON if is_json else _IN_BRACES
    if not added and not pattern.search(text):
        return attributes
    rest = pattern.sub(lambda match: "{" if match["before"] == "{" else "", text)
    inside = rest.removeprefix("{").removesuffix("}").removeprefix(",")
    return f"{{{','.join(part for part in (inside, added) if part)}}}"
