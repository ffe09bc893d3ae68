"""`msmemscope events DIR`: an event log as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import UsageError
from msmemscope.model.events import EVENT_WORDS, EventKind

if TYPE_CHECKING:
    import argparse

_KIND_BY_WORD = {kind.name.lower(): kind for kind in EventKind if kind is not EventKind.NONE}


def _kinds_named(word: str) -> list[EventKind]:
    """The kinds of one word: a kind itself (`aten_start`), or a word of dumps that stands for several (`op_launch`)."""
    wanted = word.strip().lower().replace("-", "_")
    if wanted in _KIND_BY_WORD:
        return [_KIND_BY_WORD[wanted]]
    return [EventKind(kind) for kind, dump_word in EVENT_WORDS.items() if dump_word.lower() == wanted]


class EventsCommand:
    """Write every committed event of a capture to stdout, one line each.

    Works on captures of any state: finished, killed, or still running.
    """

    name = "events"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument(
            "directory", type=Path, metavar="DIR", help="a capture: msmemscope_*_ascend, or an archive of one"
        )
        parser.add_argument("--limit", metavar="N", help="write at most N events")
        parser.add_argument(
            "--kind",
            action="append",
            metavar="KIND",
            help="write only events of this kind, such as malloc, free, op_launch, access; may be repeated",
        )
        parser.add_argument(
            "--definitions", action="store_true", help="also write strings, code objects, stacks and modules"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the text; a reader that goes away (head) ends it."""
        limit = _limit(arguments.limit)
        kinds = _kinds(arguments.kind)
        from msmemscope.formats.event_log import Capture
        from msmemscope.formats.event_log.text_dump import write_text

        write_text(
            Capture(arguments.directory), sys.stdout, limit=limit, kinds=kinds, definitions=arguments.definitions
        )
        sys.stdout.flush()
        return 0


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        message = "not a number of events"
        raise UsageError(message, option="--limit", value=text, accepted="an integer >= 0")
    return int(text)


def _kinds(words: list[str] | None) -> list[EventKind] | None:
    if words is None:
        return None
    kinds: list[EventKind] = []
    for word in words:
        named = _kinds_named(word)
        if not named:
            accepted = ", ".join(sorted({*_KIND_BY_WORD, *(dump_word.lower() for dump_word in EVENT_WORDS.values())}))
            message = "not a kind of event"
            raise UsageError(message, option="--kind", value=word, accepted=accepted)
        kinds.extend(named)
    return kinds
