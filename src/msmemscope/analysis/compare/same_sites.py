"""The same call sites of two runs, where the source was edited between them.

A site is a line of a function. In the same file and function, lines with the same text are the same site, in their
order. The other lines were rewritten. Each is paired with the nearest other line, after the move of the lines around
it. The text of lines is not known in dumps, for example. Then lines of the same numbers are the same, unless all have
moved by a little.
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from msmemscope.recording.source_lines import line_and_library, line_text, site_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from msmemscope.recording import Recording

_FARTHEST: Final = 10
"""Lines that a rewritten line may lie away from where the lines around it have moved to."""
_OF_BASE: Final = " (base)"


@dataclasses.dataclass(frozen=True)
class SameSites:
    """The names that call sites of one run have in another."""

    names: Mapping[str, str]
    """Sites of the base, with their names in the run that it is compared to; sites with the same name are left out."""
    moved: int
    """How many of them are other lines there."""


def same_sites(base: Recording, other: Recording, base_sites: Iterable[str], other_sites: Iterable[str]) -> SameSites:
    """Find the sites of two runs that are the same in the source.

    Args:
        base: One run.
        other: The run that is compared to it.
        base_sites: Call sites of the first.
        other_sites: Call sites of the second.
    """
    of_base, of_other = _Lines(base_sites), _Lines(other_sites)
    files = _same_files(of_base.files, of_other.files)
    names: dict[str, str] = {}
    taken = set(of_other.sites)
    for key, lines in of_base.functions.items():
        other_key = (files.get(key[0], key[0]), key[1])
        other_lines = of_other.functions.get(other_key, [])
        pairs = _same_lines(lines, other_lines, _text_in(base, key[0]), _text_in(other, other_key[0]))
        for line in lines:
            partner = pairs.get(line)
            for site in of_base.of_line[key[0], key[1], line]:
                renamed = None if partner is None else _moved(site, other_key[0], partner)
                if renamed is None and site in taken:
                    names[site] = site + _OF_BASE  # another line has its number now
                elif renamed is not None and renamed != site:
                    names[site] = renamed
    return SameSites(names, sum(not name.endswith(_OF_BASE) for name in names.values()))


class _Lines:
    """Call sites by file, function and line; sites that are no lines of Python are left out."""

    def __init__(self, sites: Iterable[str]) -> None:
        self.sites = dict.fromkeys(sites)
        self.functions: dict[tuple[str, str], list[int]] = {}
        self.of_line: dict[tuple[str, str, int], list[str]] = {}
        for site in self.sites:
            frame = site_frame(site)
            if frame is None:
                continue
            lines = self.functions.setdefault((frame.file, frame.function), [])
            if frame.line not in lines:
                lines.append(frame.line)
            self.of_line.setdefault((frame.file, frame.function, frame.line), []).append(site)
        for lines in self.functions.values():
            lines.sort()
        self.files = dict.fromkeys(file for file, _ in self.functions)


def _moved(site: str, file: str, line: int) -> str:
    """Return a site as a line of another number; a library that is called there stays."""
    frame = site_frame(site)
    first, _, rest = site.partition("\n")
    _, library = line_and_library(first)
    if frame is None:
        return site
    moved = line_text(frame._replace(file=file, line=line))
    text = f"{moved}, in {library}" if library else moved
    return f"{text}\n{rest}" if rest else text


def _same_files(base: Iterable[str], other: Iterable[str]) -> dict[str, str]:
    """Pair files of the same path, and those of the same name in other folders."""
    pairs = {file: file for file in base if file in set(other)}
    of_name: dict[str, list[str]] = {}
    for file in other:
        if file not in pairs:
            of_name.setdefault(PurePath(file).name, []).append(file)
    lone = [file for file in base if file not in pairs]
    names = [PurePath(file).name for file in lone]
    for file, name in zip(lone, names, strict=True):
        if names.count(name) == 1 and len(of_name.get(name, ())) == 1:
            pairs[file] = of_name[name][0]
    return pairs


def _text_in(recording: Recording, file: str) -> Callable[[int], str | None]:
    return lambda line: recording.source_texts.get((file, line))


def _same_lines(
    base: Sequence[int],
    other: Sequence[int],
    base_text: Callable[[int], str | None],
    other_text: Callable[[int], str | None],
) -> dict[int, int]:
    """Pair lines of one function.

    Args:
        base: Numbers of lines, ascending.
        other: The same of the other run.
        base_text: The text of a line; None if it is not known.
        other_text: The same of the other run.
    """
    base_texts, other_texts = [base_text(line) for line in base], [other_text(line) for line in other]
    known = [text for text in (*base_texts, *other_texts) if text is not None]
    if len(known) < len(base) + len(other):
        return _same_numbers(base, other)
    pairs: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, base_texts, other_texts, autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            pairs[base[block.a + offset]] = other[block.b + offset]
    # Lines that have changed places.
    for line, text in zip(base, base_texts, strict=True):
        free = [one for one, its in zip(other, other_texts, strict=True) if its == text and one not in pairs.values()]
        if line not in pairs and free:
            pairs[line] = free[0]
    _pair_nearest(pairs, base, other)
    return pairs


def _same_numbers(base: Sequence[int], other: Sequence[int]) -> dict[int, int]:
    if len(base) == len(other) and all(abs(one - two) <= _FARTHEST for one, two in zip(base, other, strict=True)):
        return dict(zip(base, other, strict=True))
    pairs = {line: line for line in base if line in set(other)}
    _pair_nearest(pairs, base, other)
    return pairs


def _pair_nearest(pairs: dict[int, int], base: Sequence[int], other: Sequence[int]) -> None:
    """Pair the other lines, the nearest first; a line moves as the one above it."""
    anchors = sorted(pairs.items())
    taken = set(pairs.values())

    def expected(line: int) -> int:
        shift = 0
        for anchor, partner in anchors:
            if anchor > line:
                break
            shift = partner - anchor
        return line + shift

    distances = sorted(
        (abs(expected(line) - one), line, one)
        for line in base
        if line not in pairs
        for one in other
        if one not in taken
    )
    for distance, line, one in distances:
        if distance <= _FARTHEST and line not in pairs and one not in taken:
            pairs[line] = one
            taken.add(one)
