"""Call sites that are the same on every host: the same line of the same program has one name and one hash.

A file of an installed package is named from the package on (`torch/nn/modules/linear.py`), any other by its name alone.
The place of a checkout, a container or a job's own folder is no part of the name. The hash is that of all frames of a
call site, so that callers tell two files of one name apart.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.recording.source_lines import blamed_frame, line_text, site_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

STABLE_SITE_SCHEMA: Final = pl.Schema(
    {"site_path": pl.String(), "hash": pl.String(), "site": pl.String(), "frames": pl.String()}
)
"""One row per call site of a recording. site_path: as `call_sites` has it; hash: 16 hexadecimal digits; site: its line, see `source_lines`;
frames: all of them, innermost first, a line each."""

MOST_FRAMES: Final = 24
"""Frames that are kept as text, the innermost ones; the hash is of all."""
_HASH_BYTES: Final = 8
_PACKAGE: Final = re.compile(r".*/(?:site|dist)-packages/")
_LIBRARY: Final = re.compile(r".*/lib(?:64)?/python3(?:\.\d+)?t?/")
_ADDRESS: Final = re.compile(r"\+?0x[0-9a-f]+")


def stable_sites(site_paths: pl.Series) -> pl.DataFrame:
    """Name call sites as they are named on every host.

    Args:
        site_paths: As `recording.call_sites.call_sites` has them.

    Returns:
        STABLE_SITE_SCHEMA, one row per different path.
    """
    rows = []
    for path in site_paths.unique().drop_nulls().sort():
        frames = [stable_line(line) for line in path.splitlines()]
        text = "\n".join(frames)
        digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=_HASH_BYTES).hexdigest()
        rows.append((path, digest, _stable_site(path, frames), "\n".join(frames[:MOST_FRAMES])))
    return pl.DataFrame(rows, STABLE_SITE_SCHEMA, orient="row")


def _stable_site(path: str, frames: Sequence[str]) -> str:
    innermost = frames[0] if frames else ""
    blamed = blamed_frame([frame for frame in map(site_frame, path.splitlines()) if frame is not None])
    line = innermost if blamed is None else stable_line(line_text(blamed))
    return line if line == innermost else f"{line}, in {innermost}"


@functools.lru_cache(maxsize=1 << 16)
def stable_line(line: str) -> str:
    """Return a frame, `file(line): function` or one of a native stack, without parts that differ between hosts."""
    frame = site_frame(line)
    if frame is not None:
        return line_text(frame._replace(file=_stable_file(frame.file)))
    module, parenthesis, rest = line.partition("(")
    return _ADDRESS.sub("", f"{_stable_file(module)}{parenthesis}{rest}").strip()


def _stable_file(file: str) -> str:
    for root in (_PACKAGE, _LIBRARY):
        match = root.match(file)
        if match is not None:
            return file[match.end() :]
    return file.rpartition("/")[2]
