"""The error of an integration whose package is not installed."""

from __future__ import annotations

from msmemscope.errors import MsmemscopeError


class MissingPackageError(MsmemscopeError, ImportError):
    """A package that an integration works with is not installed in this environment.

    Args:
        user: The part that needs it, as its users call it.
        packages: Names for pip; one of them is enough.
    """

    def __init__(self, user: str, *packages: str) -> None:
        """Name the packages and how to get them."""
        needed = " or ".join(packages)
        super().__init__(f"{user} needs {needed}, which is not installed here", hint=f"pip install {packages[0]}")

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})"
