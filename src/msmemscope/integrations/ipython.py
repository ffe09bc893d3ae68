"""The magic `%%msmemscope` for IPython and notebooks: runs a cell under collection and shows what it did to memory.

::

    %load_ext msmemscope.integrations.ipython

    %%msmemscope --device=npu --top=10
    output = model(batch)

`%msmemscope [options] statement` does the same for one statement. Options are those of the command line that say what
is collected, and `--top`, the number of source lines to show. `--analysis` prints the answers of its analyses below,
about all that was collected in the process up to then. Where collection is on already, it stays on and the
options for it are refused by a message. A cell that fails shows its memory, too, above its traceback.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any

from msmemscope.capture.session import session
from msmemscope.configuration import OPTION_BY_SPELLING, Config, with_keywords
from msmemscope.errors import ConfigurationError, MsmemscopeError, UsageError
from msmemscope.integrations.missing_package import MissingPackageError
from msmemscope.integrations.observed_region import ObservedRegion, collect_into_scratch_folder

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_TOP = "top"
_DEFAULT_TOP = 5
_MOST_TOP = 1000
_OPTION = re.compile(r"""(?P<spelling>--?[\w-]*)(?:=|\s+)(?P<value>"[^"]*"|'[^']*'|\S*)(?:\s+|$)""")
"""An option and its value, which may be quoted."""


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magic; called by `%load_ext`."""
    # Blocks are followed from the import on: blocks of earlier cells are there already, and are not counted.
    shell.register_magic_function(_magic, "line_cell", "msmemscope")


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magic away; called by `%unload_ext`."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("msmemscope", None)


def _magic(line: str, cell: str | None = None) -> None:
    """Run a cell, or a statement, under collection and show what it did to memory.

    %%msmemscope [--top=N] [--device=LIST] [--OPTION=VALUE ...]
    %msmemscope [--top=N] [--OPTION=VALUE ...] statement

    Options are those of the command line: see msmemscope --help-all.
    """
    try:
        from IPython.core.error import UsageError as MagicUsageError
        from IPython.core.getipython import get_ipython
    except ImportError as error:
        user = "%%msmemscope"
        raise MissingPackageError(user, "ipython") from error
    shell = get_ipython()
    try:
        options, statement = _split(line)
        if cell is not None and statement:
            message = "takes options only on its line"
            raise ConfigurationError(message, option="%%msmemscope", value=statement, accepted="--option=value")
        top = _number_of_lines(options.pop(_TOP, None))
        with_keywords(Config(), options)
    except UsageError as error:
        raise MagicUsageError(str(error)) from None
    settings: dict[str, Any] = dict(options)
    if session.is_tracing:
        if settings:
            raise MagicUsageError("collection is on already, so its settings hold; leave out " + ", ".join(settings))
    elif "output" not in settings and collect_into_scratch_folder():
        settings = {"events": "alloc,free", "analysis": "", **settings}
    analyses = [word.partition(":")[0].strip() for word in options.get("analysis", "").split(",") if word]
    region = ObservedRegion(**settings)
    run = _Code(shell, statement, 0) if cell is None else _Code(shell, cell, 1)
    region.begin()
    try:
        run.execute()
    except BaseException:
        # The blocks that filled the memory are wanted most where it ran out. They stand above the traceback, which
        # IPython prints.
        region.end()
        _show(region, top, run.title, analyses, was_interrupted=True)
        raise
    region.end()
    _show(region, top, run.title, analyses)


def _show(region: ObservedRegion, top: int, title: str, analyses: list[str], *, was_interrupted: bool = False) -> None:
    """Show the effect of a cell on memory, and the answers of the chosen analyses.

    Raises:
        UsageError: Of IPython, if that is not known; only warned about where the cell has an exception of its own.
    """
    from IPython.core.error import UsageError as MagicUsageError
    from IPython.display import display

    from msmemscope.integrations.cell_report import report_of

    try:
        display(report_of(region, top, title, was_interrupted=was_interrupted))
        if analyses:
            from msmemscope.integrations.cell_answers import answers

            for answer in answers(analyses):
                print(answer)  # noqa: T201 - the output of the cell
    except MsmemscopeError as error:
        message = f"the cell ran, but what it did to memory is not known: {error.message}"
        if not was_interrupted:
            raise MagicUsageError(message) from error
        print(f"msmemscope: {message}", file=sys.stderr)  # noqa: T201 - below the cell, where its user looks


def _split(line: str) -> tuple[dict[str, str], str]:
    """Take the leading options off a line: keyword to text, and the rest as it was written.

    Raises:
        UsageError: If something that begins with two dashes is no option.
    """
    options: dict[str, str] = {}
    rest = line.strip()
    while rest.startswith("-"):
        match = _OPTION.match(rest)
        spelling = rest.split()[0] if match is None else match["spelling"]
        if spelling == "--":
            return options, rest[len(spelling) :].strip()
        option = OPTION_BY_SPELLING.get(spelling)
        if spelling != f"--{_TOP}" and (option is None or not option.is_setting):
            accepted = ", ".join(word for word, one in OPTION_BY_SPELLING.items() if one.is_setting)
            message = "unknown option"
            raise UsageError(message, value=spelling, accepted=f"--{_TOP}, {accepted}")
        if match is None:
            message = "needs a value"
            accepted = "a number" if option is None else option.accepted
            raise UsageError(message, option=spelling, accepted=f"{spelling}=VALUE; {accepted}")
        options[_TOP if option is None else option.name.replace("-", "_")] = match["value"].strip("\"'")
        rest = rest[match.end() :]
    return options, rest


def _number_of_lines(text: str | None) -> int:
    if text is None:
        return _DEFAULT_TOP
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_TOP:
        message = "not a number of lines"
        raise UsageError(message, option=f"--{_TOP}", value=text, accepted=f"1 to {_MOST_TOP}")
    return int(text)


class _Code:
    """Code of a cell, compiled as IPython does it: its magics work, its last expression is shown.

    Args:
        shell: Where it runs.
        text: As written.
        line_offset: Lines of the cell above the text, so that line numbers are those that the user sees.
    """

    def __init__(self, shell: Any, text: str, line_offset: int) -> None:
        self._shell = shell
        # The number of the cell's output; in newer versions the shell's own count is already the next.
        self._number: int = shell.displayhook.prompt_count
        transformed = "\n" * line_offset + shell.transform_cell(text)
        name = shell.compile.cache(transformed, self._number)
        tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=name))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._body = shell.compile(tree, name, "exec")
        self._last = None if last is None else shell.compile(ast.Interactive([last]), name, "single")

    @property
    def title(self) -> str:
        """How the user calls the cell."""
        return f"In[{self._number}]"

    def execute(self) -> None:
        """Run in the namespace of the user; exceptions go their way."""
        exec(self._body, self._shell.user_global_ns, self._shell.user_ns)  # noqa: S102 - it is what the user asks for
        if self._last is not None:
            exec(self._last, self._shell.user_global_ns, self._shell.user_ns)  # noqa: S102
