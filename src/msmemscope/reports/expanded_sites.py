"""Call sites with the frames that called them: a table shows these when more than a site's line is asked for."""

from __future__ import annotations

import dataclasses
from typing import Final, TypeVar

import polars as pl

_PATH: Final = "site_path"
"""Column of the frames of a call site, the innermost first, a line each."""
_LABELS: Final = ("site", "call_site")
"""Columns that name a call site by its line."""

Value = TypeVar("Value")


def with_frames(value: Value, frames: int) -> Value:
    """Return a result whose call sites are named by several frames, a line each.

    Args:
        value: A result: dataclasses, tuples and tables within each other.
        frames: How many, at most; a stack may have fewer.
    """
    if isinstance(value, pl.DataFrame):
        labels = [name for name in _LABELS if name in value.columns]
        if _PATH not in value.columns or not labels:
            return value
        callers = pl.col(_PATH).str.split("\n").list.slice(1, frames - 1)
        return value.with_columns(  # type: ignore[return-value] # a table, too
            pl.when(pl.col(_PATH).is_null())
            .then(name)
            .otherwise(pl.concat_list(name, callers).list.join("\n"))
            .alias(name)
            for name in labels
        )
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(with_frames(one, frames) for one in value)  # type: ignore[return-value] # of the same kinds
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {name: with_frames(one, frames) for name, one in fields.items()}
        return dataclasses.replace(value, **{name: one for name, one in changed.items() if one is not fields[name]})
    return value
