"""Archives of event logs: sound ones, damaged ones, and such that somebody made to deceive, with right checksums."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msmemscope.errors import MsmemscopeError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.archive.archive_writer import write_archive
from msmemscope.formats.event_log.archive.contents import DESCRIPTION
from tests.fuzzing import values

if TYPE_CHECKING:
    import random


def archived_log(rng: random.Random, files: dict[str, bytes]) -> bytes:
    """Returns the archive of an event log, mostly with something wrong.

    Args:
        rng: Where chance comes from.
        files: Of the event log.
    """
    content = _archive(files)
    choice = rng.random()
    if choice < 0.2:
        return content
    if choice < 0.4:
        return values.damaged(rng, content)
    return _remade(rng, content)


def _archive(files: dict[str, bytes]) -> bytes:
    content = bytearray()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "msmemscope_4242_20240101120000_ascend", "event_log")
        log.mkdir(parents=True)
        for name, one in files.items():
            (log / name).write_bytes(one)
        try:
            write_archive(Capture(log), content.extend)
        except MsmemscopeError:  # there is no archive of what cannot be read
            return b""
    return bytes(content)


def _remade(rng: random.Random, content: bytes) -> bytes:
    """Returns an archive in which some members are replaced by others."""
    if not content:
        return content
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(out, "w") as made:
        names = given.namelist()
        chosen = set(rng.sample(names[1:], rng.choice((1, 1, 2))))
        for name in names:
            member = given.read(name)
            entry = zipfile.ZipInfo(name)  # without the time of day: the input of a number is always the same
            if name not in chosen:
                made.writestr(entry, member)
            elif name == DESCRIPTION:
                made.writestr(entry, _described(rng, member))
            elif rng.random() < 0.9:
                method = rng.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,))
                made.writestr(entry, values.damaged(rng, member), method)
    return out.getvalue()


def _described(rng: random.Random, member: bytes) -> bytes:
    described: dict[str, Any] = json.loads(member)
    name = rng.choice(list(described))
    described[name] = rng.choice(
        (
            0,
            1,
            -1,
            41,
            1 << 18,
            values.bits(rng, 64),
            10**40,
            None,
            True,
            "",
            "..",
            values.text(rng),
            [],
            ["x"],
            {},
            0.5,
        )
    )
    if rng.random() < 0.1:
        del described[name]
    return json.dumps(described).encode()
