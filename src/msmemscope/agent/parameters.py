"""The parameters of tools with their JSON schema, and the check of an agent's arguments."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, Final

from msmemscope.agent.bounded_answer import DEFAULT_ROWS, MOST_ROWS
from msmemscope.analysis.options import Chance, Size, Switch, WholeNumber, Words, option_words
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.analysis.options import Accepted
    from msmemscope.questions import Question

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}
"""Python's types of those of JSON."""
_MOST_BITS: Final = 63
"""Numbers of recordings fit into so many."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One thing that a tool can be given."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the value, without its description; `type` is a word or a list of words."""
    is_required: bool = False

    def check(self, value: object) -> None:
        """Refuse a value of another type; its user judges its meaning.

        Raises:
            UsageError: It is of another type.
        """
        types = self.schema["type"]
        words = [types] if isinstance(types, str) else list(types)
        is_switch = isinstance(value, bool)
        fits = any(isinstance(value, _TYPES[word]) and is_switch == (word == "boolean") for word in words)
        if fits and isinstance(value, list):
            fits = all(isinstance(item, str) for item in value)
        if not fits:
            message = "not of the right type"
            raise UsageError(message, option=self.name, value=repr(value)[:80], accepted=" or ".join(words))
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            message = "too large a number"
            raise UsageError(message, option=self.name, value=f"of {value.bit_length()} bits", accepted="63 bits")


PATH: Final = Parameter(
    "path",
    "A capture folder (msmemscope_*_ascend), a folder of several, a dump file (CSV or DB), or a memory snapshot of torch.",
    {"type": "string"},
    is_required=True,
)
PROCESS: Final = Parameter(
    "process", "The process id, where several processes lie at the path; `load` names them.", {"type": "integer"}
)
PAGING: Final = (
    Parameter(
        "limit",
        f"Rows of each table at most; default {DEFAULT_ROWS}.",
        {"type": "integer", "minimum": 1, "maximum": MOST_ROWS},
    ),
    Parameter(
        "table",
        "Answer with this table alone: its name as `left_out` of an earlier answer has it.",
        {"type": "string"},
    ),
    Parameter(
        "offset", "Rows of `table` that are passed over; goes together with it.", {"type": "integer", "minimum": 0}
    ),
)
"""The parameters of every tool."""


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    return {
        "type": "object",
        "properties": {one.name: {**one.schema, "description": one.description} for one in parameters},
        "required": [one.name for one in parameters if one.is_required],
        "additionalProperties": False,
    }


def checked_arguments(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Judge what an agent passes; null is the same as nothing.

    Raises:
        UsageError: A name is not known, a value is missing or of another type.
    """
    known = {one.name: one for one in parameters}
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else None
            message = "no such parameter"
            raise UsageError(message, value=name, accepted=", ".join(known), hint=hint)
        if value is not None:
            known[name].check(value)
    missing = next((one for one in parameters if one.is_required and given.get(one.name) is None), None)
    if missing is not None:
        message = "is missing"
        raise UsageError(message, option=missing.name, accepted=missing.description)
    return {name: value for name, value in given.items() if value is not None}


def option_parameters(question: Question[Any, Any]) -> list[Parameter]:
    """Return the options of a question that write nothing, as parameters."""
    words_of = option_words(question.options)
    found = []
    for field in dataclasses.fields(question.options):
        words = words_of[field.name]
        if words.accepted.writes:
            continue
        default = question.on_command_line.get(field.name, field.default)
        text = words.summary if default is None else f"{words.summary}; default: {default}"
        found.append(Parameter(_offered_name(question, field.name), text, _schema(words.accepted)))
    return found


def option_values(question: Question[Any, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a question as it takes them; nothing of them writes.

    Args:
        question: The question that is asked.
        given: By name, checked.

    Raises:
        UsageError: A text is no value of its option, or an option means nothing without another.
    """
    words_of = option_words(question.options)
    values: dict[str, Any] = dict(question.on_command_line)
    for name, words in words_of.items():
        if words.accepted.writes:
            if isinstance(words.accepted, Switch):
                values[name] = False
            continue
        offered = _offered_name(question, name)
        if offered not in given:
            continue
        value = given[offered]
        needed = _offered_name(question, words.needs)
        if words.needs and needed not in given:
            message = f"goes together with {needed}"
            raise UsageError(message, option=offered, value=str(value))
        values[name] = words.accepted.parse(value, offered) if isinstance(value, str) else value
    return values


def _offered_name(question: Question[Any, Any], name: str) -> str:
    """The name of an option here: another one where every tool has a parameter of its name."""
    return f"{question.name}_{name}" if name in {one.name for one in (PATH, PROCESS, *PAGING)} else name


def _schema(accepted: Accepted) -> dict[str, Any]:
    """The JSON schema of a kind of value; of a kind that is new, the text that a command line has."""
    if isinstance(accepted, Switch):
        return {"type": "boolean"}
    if isinstance(accepted, Size):  # also with its unit, as people write it
        return {"type": ["integer", "string"]}
    if isinstance(accepted, WholeNumber):
        return {"type": "integer", "minimum": accepted.least}
    if isinstance(accepted, Chance):
        return {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    if isinstance(accepted, Words):
        return {"type": "array", "items": {"type": "string", "enum": list(accepted.words)}}
    return {"type": "string"}
