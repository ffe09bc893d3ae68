"""Every error that msmemscope raises on purpose.

The tree::

    MsmemscopeError                 anything that can be explained in one line and a hint
    ├── UsageError                  an option of the command line is wrong; exit status 2
    │   └── ConfigurationError      the same, for Python callers; also a ValueError
    ├── EventLogError               an event log cannot be read
    ├── InputError                  a path holds nothing that analyses can read
    │   └── MissingInputError       a path leads nowhere; also a FileNotFoundError
    ├── DumpError                   a dump file cannot be written
    ├── PlantedLinkError            a path leads through a symbolic link of another user
    └── LaunchError                 a program cannot be started; carries its exit status

Library code raises these and never prints; only `msmemscope.cli.main` turns them into a message on stderr and an exit
status. A message says what is wrong, then the value, then the expectation. The hint says what to do, and stands on its
own line.
"""

from __future__ import annotations

EXIT_STATUS_FAILURE = 1
"""Something went wrong in our own work."""

EXIT_STATUS_USAGE = 2
"""The command line was wrong: nothing was started and nothing was created."""

EXIT_STATUS_CANNOT_EXECUTE = 126
"""The program was found and cannot be executed, as shells say it."""

EXIT_STATUS_NOT_FOUND = 127
"""The program was not found, as shells say it."""


class MsmemscopeError(Exception):
    """Anything that can be explained to the user in one line and a hint.

    Args:
        message: The fault, with the value concerned.
        hint: Advice, if there is some.
    """

    exit_status: int = EXIT_STATUS_FAILURE
    """Exit status of the command line when nothing handles the error."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the message and the hint apart, so that each caller can lay them out."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MsmemscopeError):
    """The command line asks for something that is not accepted.

    Args:
        message: The fault, in words that do not repeat the fields below.
        option: The option concerned as the user knows it (`--level`), if one is.
        value: The value that was given, if one was.
        accepted: The accepted values.
        hint: Advice, if there is some.
    """

    exit_status = EXIT_STATUS_USAGE

    def __init__(
        self,
        message: str,
        *,
        option: str | None = None,
        value: str | None = None,
        accepted: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Compose the one-line message from its parts."""
        text = message
        if option is not None:
            text = f"{option}: {text}"
        if value is not None:
            text = f"{text}: {value!r}"
        if accepted is not None:
            text = f"{text} (accepted: {accepted})"
        super().__init__(text, hint=hint)
        self.reason = message
        self.option = option
        self.value = value
        self.accepted = accepted


class ConfigurationError(UsageError, ValueError):
    """A Python caller passed a setting that is not accepted."""


class EventLogError(MsmemscopeError):
    """An event log is missing, damaged, or of a version that this reader does not know."""


class InputError(MsmemscopeError):
    """A path is missing, unreadable, or holds nothing that analyses can read."""

    exit_status = EXIT_STATUS_USAGE


class MissingInputError(InputError, FileNotFoundError):
    """A path leads nowhere; also a FileNotFoundError."""


class DumpError(MsmemscopeError):
    """A dump file or its folder cannot be written."""


class PlantedLinkError(MsmemscopeError):
    """A path leads through a symbolic link that another user put there."""


class LaunchError(MsmemscopeError):
    """The program to be observed cannot be started.

    Args:
        message: The fault, with the program concerned.
        exit_status: 127 if the program was not found, 126 if it cannot be executed.
        hint: Advice, if there is some.
    """

    def __init__(self, message: str, *, exit_status: int, hint: str | None = None) -> None:
        """Keep the exit status that a shell would give."""
        super().__init__(message, hint=hint)
        self.exit_status = exit_status
