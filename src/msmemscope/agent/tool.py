"""The type of a tool, whatever protocol offers it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from msmemscope.agent.bounded_answer import DEFAULT_ROWS, Page, bounded_answer
from msmemscope.agent.parameters import PAGING, checked_arguments, input_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from msmemscope.agent.loaded_recordings import LoadedRecordings
    from msmemscope.agent.parameters import Parameter


@dataclasses.dataclass(frozen=True)
class Tool:
    """One thing that an agent can ask for. It only reads."""

    name: str
    description: str
    """For the agent: what the answer shows, and when to ask for it."""
    own_parameters: Sequence[Parameter]
    find: Callable[[LoadedRecordings, Mapping[str, Any]], object]
    """Finds the content of the answer; gets the checked arguments, without the parameters of paging."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All that it takes."""
        return (*self.own_parameters, *PAGING)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return input_schema(self.parameters)

    def answer(self, recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answer with at most `bounded_answer.MOST_BYTES` of JSON.

        Args:
            recordings: Where inputs are read and kept.
            given: The arguments that the agent passes.

        Raises:
            MsmemscopeError: An argument is not accepted, or an input cannot be read.
        """
        arguments = checked_arguments(self.parameters, given)
        paging = {one.name: arguments.pop(one.name, None) for one in PAGING}
        page = Page(
            paging["limit"] if paging["limit"] is not None else DEFAULT_ROWS, paging["table"], paging["offset"] or 0
        )
        return bounded_answer(self.find(recordings, arguments), page)
