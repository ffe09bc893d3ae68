"""Texts for people outside: words that only this machine or this program can have said are replaced by tokens.

Words stay because they are known to be harmless, not because they do not look secret. A word stays if msmemscope itself
has it, in its sources or in its native core. It also stays if the system has it in its messages of errors. Any other
may be a name.
"""

from __future__ import annotations

import builtins
import errno
import functools
import getpass
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_WORD: Final = re.compile(r"\w+")
"""An identifier as a whole: two words of ours make no name of ours."""
_NUMBER_IN_WORD: Final = re.compile(r"(?:^|_)\d+(?=_|$)")
"""As in `events_0` and `msmemscope_4242_20240101120000_ascend`; digits within hexadecimal ones are none."""
_WORD_OF_NATIVE: Final = re.compile(rb"\w{4,}", re.ASCII)
_FILE: Final = re.compile(r"\w/|/\w|\.py\b")
_QUOTED: Final = re.compile(r"(?<!\w)(['\"`]).*?\1(?!\w)")
_IN_PATHS: Final = r"[^\s'\"`,;()\[\]{}<>]"
_PATH: Final = re.compile(rf"(?<![\w.)<])~?/{_IN_PATHS}*(?<![:.])")
_ADDRESS: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+){3}(?![\w.])")
_TOKEN: Final = re.compile(r"<[a-z]+ \d+>")
_LEAST_KNOWN: Final = 4
"""Characters: shorter values would be found within the words of every sentence."""


class Redaction:
    """Replaces names by tokens: `<path 1>`, `<word 2>`; the same text has the same token as long as this object lives.

    Args:
        with_names: Replace nothing.
        private: Texts that are replaced wherever they stand, such as the arguments of a program.
    """

    def __init__(self, *, with_names: bool = False, private: Iterable[str] = ()) -> None:
        """Begin without tokens."""
        self.with_names = with_names
        self._tokens: dict[tuple[str, str], str] = {}
        self._private: set[str] = set()
        if not with_names:
            self.keep_private((*private, *_of_this_machine()))

    def keep_private(self, texts: Iterable[str]) -> None:
        """Replace these too from now on; a single word of ours says nothing, wherever it comes from."""
        for text in texts:
            is_ours = text.isdigit() or text.lower() in _vocabulary()
            if len(text) >= _LEAST_KNOWN and not is_ours:
                self._private.add(text)

    def token(self, kind: str, text: str) -> str:
        """Replace a text as a whole."""
        if self.with_names:
            return text
        known = sum(one == kind for one, _ in self._tokens)
        return self._tokens.setdefault((kind, text), f"<{kind} {known + 1}>")

    def text(self, text: str) -> str:
        """Replace in a sentence private texts, paths, quoted texts, and words that are not ours."""
        if self.with_names:
            return text
        for one in sorted(self._private, key=len, reverse=True):
            if one in text:
                # The text behind a folder is a part of the same path.
                pattern = re.escape(one) + (rf"(?:/{_IN_PATHS}*)?" if "/" in one else "")
                text = re.sub(pattern, self._private_token, text)
        text = self.paths(text)
        text = _QUOTED.sub(lambda found: self._quoted(found[0]), text)
        text = _ADDRESS.sub(lambda found: self.token("address", found[0]), text)
        pieces = re.split(r"(<[a-z]+ \d+>|\s+)", text)
        return "".join(map(self._piece, pieces))

    def _piece(self, piece: str) -> str:
        if _TOKEN.search(piece) or not _FILE.search(piece):
            return piece if _is_ours(piece) else self.token("word", piece)
        is_our_file = _is_ours(piece) and (_PACKAGE / piece.strip("(),").partition(":")[0]).is_file()
        return piece if is_our_file or piece == "N/A" else self.token("path", piece)

    def _private_token(self, found: re.Match[str]) -> str:
        return self.token("path" if "/" in found[0] else "word", found[0])

    def paths(self, text: str) -> str:
        """Replace the absolute paths in a sentence, and nothing else."""
        if self.with_names:
            return text
        return _PATH.sub(lambda found: self.token("path", found[0]), text)

    def name(self, path: str) -> str:
        """Replace the parts of a relative path that are no names of ours."""
        if self.with_names:
            return path
        return "/".join(
            part if _is_ours(part) and part not in self._private else self._part(part) for part in path.split("/")
        )

    def _part(self, part: str) -> str:
        suffix = Path(part).suffix
        return self.token("name", part) + (suffix if _is_ours(suffix) else "")

    def _quoted(self, text: str) -> str:
        inside = text[1:-1]
        is_word = inside.isascii() and inside.isalpha() and inside.lower() in _vocabulary()
        return text if is_word or _TOKEN.fullmatch(inside) else f"{text[0]}{self.token('word', inside)}{text[0]}"


def _is_ours(piece: str) -> bool:
    if _TOKEN.fullmatch(piece):
        return True
    words = (part for word in _WORD.findall(piece) for part in _NUMBER_IN_WORD.split(word))
    return all(not word or word.isdecimal() or word in _vocabulary() for word in map(_plain, words))


def _plain(word: str) -> str:
    return word.strip("_").lower()


@functools.cache
def _vocabulary() -> frozenset[str]:
    words: set[str] = set()
    for path in _PACKAGE.rglob("*.py"):
        words.update(map(_plain, _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))))
    for path in _PACKAGE.glob("_native*.so"):
        words.update(_plain(word.decode()) for word in _WORD_OF_NATIVE.findall(path.read_bytes()))
    words.update(name.lower() for name in dir(builtins))
    for number in errno.errorcode:
        words.update(map(_plain, _WORD.findall(os.strerror(number))))
    return frozenset(words)


def _of_this_machine() -> list[str]:
    """Texts of the user, the machine and the environment that messages could repeat."""
    try:
        user = [getpass.getuser()]
    except (KeyError, OSError):
        user = []  # a number without a name
    host = socket.gethostname()
    places = [str(Path.home()) if "HOME" in os.environ else "", _current_folder()]
    return [*user, host, host.partition(".")[0], *places, *os.environ.values()]


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it is gone
