"""Programs with AddressSanitizer, which refuse to start behind a library that is preloaded unless told otherwise."""

from __future__ import annotations

from typing import Final

SANITIZER_OPTIONS: Final = "ASAN_OPTIONS"
"""The environment variable that tells them."""

_ANY_ORDER: Final = "verify_asan_link_order=0"


def with_any_order(options: str) -> str:
    """Add to the variable's value that the order of libraries does not matter, unless the user has decided about that."""
    is_decided = _ANY_ORDER.partition("=")[0] in options
    return options if is_decided else ":".join(filter(None, [options, _ANY_ORDER]))


def without_any_order(options: str) -> str:
    """Take it back."""
    return ":".join(option for option in options.split(":") if option != _ANY_ORDER)
