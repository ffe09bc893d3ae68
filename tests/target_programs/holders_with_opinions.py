"""Objects that would notice being asked what they are, iterated or shown; prints who holds each, and what they noticed."""

from __future__ import annotations

import json
from typing import Any

import torch

import msmemscope

noticed: list[str] = []


class LazyStandIn:
    """Stands in for another object, which it would make when its class is asked for."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def __class__(self) -> Any:
        noticed.append("__class__")
        return dict


class LoggedList(list):  # type: ignore[type-arg]
    """Says that it was iterated."""

    def __iter__(self) -> Any:
        noticed.append("__iter__")
        return super().__iter__()


class Name(str):
    """Says that it was shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        noticed.append("__repr__")
        return "changed"


class LoggedDictionary(dict):  # type: ignore[type-arg]
    """Says that its items were asked for."""

    def items(self) -> Any:
        """Those of the dictionary."""
        noticed.append("items")
        return super().items()


def main() -> None:
    """Hold a tensor in each."""
    tensors = {name: torch.zeros(1000 + place) for place, name in enumerate(("lazy", "list", "key", "number", "long"))}
    lazy = LazyStandIn(tensors["lazy"])
    items = LoggedList([tensors["list"]])
    named = LoggedDictionary({Name("key"): tensors["key"]})
    numbered = {10**100_000: tensors["number"]}
    lengthy = {"x" * 100_000: tensors["long"]}
    found = {}
    for name in list(tensors):
        tensor = tensors.pop(name)
        address = tensor.data_ptr()
        del tensor
        found[name] = msmemscope.who_holds(address)
    print(json.dumps({"found": found, "noticed": noticed}))
    assert (lazy.value.numel(), len(items), len(named), len(numbered), len(lengthy)) == (1000, 1, 1, 1, 1)


if __name__ == "__main__":
    main()
