"""Attributes of the events of a capture, by their ids.

Since version 6 an id names a definition of typed pairs; before that it names a string, which is taken apart here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.formats.attributes import (
    PAIR_SCHEMA,
    attribute_table,
    in_chunks,
    named_texts,
    pairs_of_texts,
)
from msmemscope.formats.event_log.layout import ATTRIBUTE, in_byte_order
from msmemscope.model.attributes import AttributeKey, ValueKind
from msmemscope.model.devices import KIND_NAMES, DeviceKind
from msmemscope.model.owners import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.formats.event_log.definitions import DefinitionTable

_LIBRARY: Final = ".so"
"""In the name of each library. On a CUDA device they stand for the modules of CANN, whose names are capitals."""
_BEFORE_ENDS: Final = {"range_first": ",", "range_last": "-", "more_ranges": ","}
"""The text between the ends of ranges, `ranges=0-63,128-191,...`."""


class AttributeReader:
    """Looks attributes up.

    Args:
        definitions: Of the capture.
    """

    def __init__(self, definitions: DefinitionTable) -> None:
        self._definitions = definitions

    def pairs(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids, those of each in their order.

        Args:
            ids: Any ids, each once; those that are not defined have no attributes.

        Returns:
            A table of `formats.attributes.PAIR_SCHEMA`.
        """
        wanted: list[int] = ids.to_list()
        known = self._definitions
        typed = [key for key in wanted if key in known.attributes]
        strings = known.strings
        texts = {key: text for key in wanted if (text := strings.get(key)) is not None}
        if not texts:
            return self._typed(typed)
        spelled = pl.DataFrame(
            {"id": list(texts), "text": list(texts.values())}, schema={"id": pl.UInt32(), "text": pl.String()}
        )
        return pl.concat([self._typed(typed), pairs_of_texts(spelled)])

    def table(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids, each once, as `recording.schema.ATTRIBUTE_SCHEMA`."""
        return attribute_table(map(self.pairs, in_chunks(ids)))

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return what events before version 6 had as a text, of those ids that name typed attributes."""
        typed = [key for key in ids if key in self._definitions.attributes]
        if not typed:
            return {}
        named = named_texts(self._typed(typed))
        found: dict[int, list[str]] = {}
        is_of_watch = set(named.filter(pl.col("name") == "watch")["id"])
        for key, name, value in named.iter_rows():
            parts = found.setdefault(key, [])
            if name == "module":
                kind = DeviceKind.CUDA if _LIBRARY in value else DeviceKind.NPU
                parts.append(f"{KIND_NAMES[kind].runtime}{SEPARATOR}{value}")
            elif name == "range_first" and not (parts and parts[-1].startswith("ranges=")):
                parts.append(f"ranges={value}")
            elif name in _BEFORE_ENDS:
                parts[-1:] = [f"{''.join(parts[-1:])}{_BEFORE_ENDS[name]}{value if name != 'more_ranges' else '...'}"]
            else:
                parts.append(f"{name}{'=' if key in is_of_watch else ':'}{value}")
        return {key: ("\n" if key in is_of_watch else ",").join(parts) for key, parts in found.items()}

    def _typed(self, ids: list[int]) -> pl.DataFrame:
        payloads = [self._definitions.attributes[key] for key in ids]
        if not payloads:
            return PAIR_SCHEMA.to_frame()
        # All segments of a capture are of one process, and so of one byte order.
        dtype = in_byte_order(ATTRIBUTE, big_endian=payloads[0].big_endian)
        counts = [payload.size // dtype.itemsize for payload in payloads]
        content = b"".join(
            payload.raw()[: count * dtype.itemsize] for payload, count in zip(payloads, counts, strict=True)
        )
        entries = np.frombuffer(content, dtype=dtype).astype(ATTRIBUTE)
        found = pl.DataFrame(
            {
                "id": np.repeat(np.array(ids, dtype=np.uint32), counts),
                "key": entries["key"],
                "kind": entries["kind"],
                "value": entries["value"],
            }
        )
        is_string = pl.col("kind") == ValueKind.STRING
        used = found.filter(is_string)["value"].unique()
        strings = self._definitions.strings
        texts = pl.DataFrame(
            {"value": used, "text": pl.Series([strings.get(key) for key in used.to_list()], dtype=pl.String)}
        )
        keys = [int(key) for key in AttributeKey]
        return (
            found.join(texts, on="value", how="left", maintain_order="left")
            .filter(pl.col("key").is_in(keys))
            .select(
                "id",
                "key",
                pl.lit(None, dtype=pl.String).alias("other"),
                pl.when(~is_string).then("value").alias("number"),
                pl.when(is_string).then("text").alias("text"),
            )
        )
