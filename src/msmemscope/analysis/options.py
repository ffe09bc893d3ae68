"""Options of questions: name, meaning and accepted values of each, in Python and on a command line."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, split_list, with_options
from msmemscope.errors import ConfigurationError, UsageError
from msmemscope.model.devices import parse_device_name
from msmemscope.units import parse_size_bytes

if TYPE_CHECKING:
    from msmemscope.configuration import Level

_LEVEL: Final = OPTION_BY_SPELLING["--level"]


class Accepted(abc.ABC):
    """A kind of value."""

    metavar: str
    """Stands for the value in help texts; empty for a switch."""
    writes: bool = False
    """Whether files are written where it is given; callers that may only read do not offer it."""

    @abc.abstractmethod
    def check(self, name: str, value: object) -> None:
        """Refuse values that the option does not accept.

        Args:
            name: Of the option, for the error.
            value: From a Python caller, so anything.

        Raises:
            ConfigurationError: If the value means nothing here.
            TypeError: If it is of the wrong type.
        """

    def parse(self, text: str, spelling: str) -> Any:
        """Read a value from a command line; `check` judges it afterwards.

        Raises:
            UsageError: If the text is no such value.
        """
        del spelling
        return text


@dataclasses.dataclass(frozen=True)
class Switch(Accepted):
    """On or off.

    Args:
        writes: Whether files are written where it is on.
    """

    metavar: str = ""
    writes: bool = False

    def check(self, name: str, value: object) -> None:
        """Anything is true or false."""


@dataclasses.dataclass(frozen=True)
class WholeNumber(Accepted):
    """A whole number.

    Args:
        least: The smallest that is accepted.
        of: The things that are counted, with a space before it, for messages.
    """

    least: int = 0
    of: str = ""
    metavar: str = "N"

    def check(self, name: str, value: object) -> None:
        """Refuse other numbers, and values that are no numbers."""
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            message = "not accepted"
            accepted = f"a whole number{self.of}, {self.least} or more"
            raise ConfigurationError(message, option=name, value=str(value), accepted=accepted)

    def parse(self, text: str, spelling: str) -> int:
        """Read digits."""
        if not (text.isascii() and text.isdigit()):
            message = "not a whole number"
            raise UsageError(message, option=spelling, value=text, accepted="0 or more")
        return int(text)


@dataclasses.dataclass(frozen=True)
class Size(WholeNumber):
    """A size in bytes."""

    of: str = " of bytes"
    metavar: str = "SIZE"

    def parse(self, text: str, spelling: str) -> int:
        """Read a number with or without a unit."""
        return parse_size_bytes(text, option=spelling)


@dataclasses.dataclass(frozen=True)
class Chance(Accepted):
    """A probability, neither 0 nor 1."""

    metavar: str = "P"

    def check(self, name: str, value: object) -> None:
        """Refuse values that are no probability."""
        if not isinstance(value, (int, float)) or not 0 < value < 1:
            message = "not a chance"
            accepted = "a number between 0 and 1, both excluded"
            raise ConfigurationError(message, option=name, value=str(value), accepted=accepted)

    def parse(self, text: str, spelling: str) -> float:
        """Read a number."""
        try:
            return float(text)
        except ValueError:
            message = "not a number"
            accepted = "a number between 0 and 1"
            raise UsageError(message, option=spelling, value=text, accepted=accepted) from None


@dataclasses.dataclass(frozen=True)
class Words(Accepted):
    """One or several words of a list.

    Args:
        words: All that there are.
        what: A word that stands for each of them in messages.
    """

    words: tuple[str, ...]
    what: str
    metavar: str = "LIST"

    def check(self, name: str, value: object) -> None:
        """Refuse other words, and none at all."""
        if isinstance(value, str) and value in self.words:
            return
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        wrong = [word for word in value if word not in self.words] if is_list and value else [value]  # type: ignore[attr-defined]  # a sequence
        if wrong:
            message = f"not {self.what}"
            accepted = f"None, or one or several of {', '.join(self.words)}"
            raise ConfigurationError(message, option=name, value=str(wrong[0]), accepted=accepted)

    def parse(self, text: str, spelling: str) -> list[str]:
        """Read words that are separated by commas."""
        words = split_list(text)
        if not words:
            message = "names nothing"
            accepted = f"{', '.join(self.words)}, separated by commas"
            raise UsageError(message, option=spelling, value=text, accepted=accepted)
        return words


@dataclasses.dataclass(frozen=True)
class Text(Accepted):
    """Any text that is not blank.

    Args:
        accepted: The accepted values, in words.
    """

    accepted: str
    metavar: str = "TEXT"

    def check(self, name: str, value: object) -> None:
        """Refuse values that are blank or no text."""
        if not isinstance(value, str):
            message = f"{name}: not a text: {value!r} (accepted: {self.accepted})"
            raise TypeError(message)
        if not value.strip():
            message = "is blank"
            raise ConfigurationError(message, option=name, value=value, accepted=self.accepted)


@dataclasses.dataclass(frozen=True)
class DeviceName(Accepted):
    """`cpu`, `npu:{id}`, `cuda:{id}`, or the number of an NPU."""

    metavar: str = "DEVICE"

    def check(self, name: str, value: object) -> None:
        """Refuse values that name no device."""
        if parse_device_name(str(value)) is None:
            message = "not a device"
            accepted = "cpu, npu:{id}, cuda:{id}, or the number of an NPU"
            raise ConfigurationError(message, option=name, value=str(value), accepted=accepted)


@dataclasses.dataclass(frozen=True)
class LevelNames(Accepted):
    """The values of `--level` of a run: `op`, `kernel`, or both."""

    metavar: str = "LIST"

    def check(self, name: str, value: object) -> None:
        """Refuse other levels, and none."""
        if not isinstance(value, str):
            message = f"{name}: not a text: {value!r} (accepted: {_LEVEL.accepted})"
            raise TypeError(message)
        if not levels_of(value, name=name):
            message = "names nothing"
            raise ConfigurationError(message, option=name, value=value, accepted=_LEVEL.accepted)


def levels_of(text: str, *, name: str = "level") -> frozenset[Level]:
    """Read a value that `LevelNames` accepts.

    Raises:
        ConfigurationError: If a word is no level.
    """
    try:
        return with_options(Config(), [GivenOption(_LEVEL, name, text)]).level
    except UsageError as error:
        raise ConfigurationError(
            error.reason, option=error.option, value=error.value, accepted=error.accepted, hint=error.hint
        ) from error


@dataclasses.dataclass(frozen=True)
class NewFile(Accepted):
    """A path where nothing is yet."""

    metavar: str = "FILE"
    writes: bool = True

    def check(self, name: str, value: object) -> None:
        """Refuse values that are no path; whether something is there is seen when it is written."""
        if not isinstance(value, (str, os.PathLike)):
            message = f"{name}: not a path: {value!r}"
            raise TypeError(message)


@dataclasses.dataclass(frozen=True)
class OptionWords:
    """How an option is written."""

    accepted: Accepted
    summary: str
    """For help texts: what it does, without its default."""
    spelling: str
    """`--idle-threshold`; empty for options of the Python interface alone."""
    needs: str
    """The field without which it means nothing, or empty."""


_WORDS: Final = "words"
_PYTHON_ONLY: Final = ""
_FROM_NAME: Final = "--"


def option(
    default: Any,
    accepted: Accepted,
    summary: str,
    *,
    spelling: str | None = None,
    needs: str = "",
    is_python_only: bool = False,
) -> Any:
    """Make a field of `QuestionOptions`.

    Args:
        default: Its value where none is given. Where it is None, None is accepted.
        accepted: The other accepted values.
        summary: Its effect, for help texts.
        spelling: On the command line, if it is not the name of the field.
        needs: The field without which it means nothing.
        is_python_only: Whether the command line does not have it.
    """
    words = OptionWords(accepted, summary, _PYTHON_ONLY if is_python_only else spelling or _FROM_NAME, needs)
    return dataclasses.field(default=default, metadata={_WORDS: words})


@dataclasses.dataclass(frozen=True)
class QuestionOptions:
    """The options of one question: a frozen dataclass whose fields are made by `option`.

    Raises:
        ConfigurationError: If a value is not accepted.
        TypeError: If one is of the wrong type.
    """

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        words = option_words(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                words[field.name].accepted.check(field.name, value)


def option_words(options: type[QuestionOptions]) -> dict[str, OptionWords]:
    """Return how the options of a question are written, by the names of their fields."""
    found = {}
    for field in dataclasses.fields(options):
        words: OptionWords = field.metadata[_WORDS]
        if words.spelling == _FROM_NAME:
            words = dataclasses.replace(words, spelling=f"--{field.name.replace('_', '-')}")
        found[field.name] = words
    return found
