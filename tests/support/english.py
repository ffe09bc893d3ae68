"""Finds English words in a text of another language."""

from __future__ import annotations

import re

_CODE = re.compile(
    r"`[^`]*`"
    r"|\"[^\"]*\""
    r"|, in (?=\S+\.py\(\d+\))"  # a library behind the line of the program: part of a call site
    r"|\S*[/\\]\S*(?: \w+(?=$|[,; ]))?"  # a path, the function behind its line included
    r"|\S+\.py\(\d+\)(?:: \w+)?"
    r"|--[\w=,]+"
    r"|\S*[._@=]\S*"  # qualified names, options, variables
    r"|\w+\(\)|<\w+>"
    r"|\b[a-z]*[A-Z][A-Za-z]*\b"
)
_KEPT = frozenset(
    [
        "msmemscope",
        "analyze",
        "torch",
        "cpu",
        "npu",
        "cuda",
        "gpu",
        "kernel",
        "mstx",
        "rank",
        "byte",
        "bytes",
        "min",
        "ms",
        "s",
        "p",
        "python",
        "expandable",
        "segments",
        "smi",
        "event",
        "log",
        "step",
        "start",
        "csv",
        "trace",
        "range",
        "detach",
        "item",
        "train",
        "keep",
        "hold",
        "main",
        "work",
        "mm",
        "ones",
        "add",
        "relu",
        "snapshot",
        "info",
        "test",
        "weights",
    ]
)
"""Names, units and code that are plain words, those of the programs here among them."""


def english(text: str) -> list[str]:
    """The English words of a text that are no names, units or code."""
    return [word for word in re.findall(r"[A-Za-z]{2,}", _CODE.sub(" ", text)) if word not in _KEPT]
