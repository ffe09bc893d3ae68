"""Bringing the captures of a run to the place of those of all hosts, each as one compact file."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from msmemscope.errors import MsmemscopeError
from msmemscope.formats.event_log.archive.archive_writer import write_archive
from msmemscope.formats.event_log.archive.contents import ARCHIVE_SUFFIX
from msmemscope.launch import messages
from msmemscope.model.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.formats.event_log import Capture
    from msmemscope.launch.destination import Destination

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9.-]+")
_MOST_LETTERS_OF_NODE: Final = 80


def gather(captures: Iterable[Capture], destination: Destination, node: str) -> None:
    """Write each capture that has events as an archive, which all verbs read.

    Archives that cannot be written are one warning, with the way to write them later. The captures themselves stay
    where they are.

    Args:
        captures: Of a run; one of a process that still runs is written as far as it has come.
        destination: Where to.
        node: The name of this host, for captures that do not say theirs.
    """
    count = 0
    for capture in captures:
        try:
            if capture.event_count() == 0:
                continue
            name = gathered_name(capture, node)
            destination.put(name, functools.partial(write_archive, capture))
        except MsmemscopeError as error:
            messages.warning(
                f"{capture.directory.name} was not gathered: {error.message}",
                f"msmemscope export {capture.directory} --to=archive makes the same file",
            )
        else:
            count += 1
    if count:
        messages.note(f"gathered: {count} {'capture' if count == 1 else 'captures'}")


def gathered_name(capture: Capture, node: str) -> str:
    """Return a name that no process of any host has: hosts repeat process ids, and start within the same second.

    Args:
        capture: Whose process it is.
        node: The name of this host, where the capture says none.
    """
    place = Place.from_facts(capture.facts)
    host = _NOT_IN_NAMES.sub("-", place.node or node)[:_MOST_LETTERS_OF_NODE].strip("-.")
    rank = f"rank{place.rank}_" if place.rank is not None else ""
    return f"{rank}{host}_{capture.directory.name}{ARCHIVE_SUFFIX}"
