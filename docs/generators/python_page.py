"""docs/python.md, from the signatures and docstrings of the public names.

The sources are read, not imported: the page is the same wherever it is made, with or without torch, IPython or a
trainer.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from generators.docstrings import markdown, summary
from generators.python_source import Source, parsed, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_LINE = 100
"""Characters of a signature, above which its arguments stand below each other."""

HEAD = """\
# The Python API

<!-- Generated from the docstrings in src/ by `make docs`; do not edit. -->

`import msmemscope` is cheap and needs neither torch nor an accelerator. Every name can be used with and without the
command line. `import msleaks` gives the same names; results then go to the older default folder.

Errors of arguments are `ConfigurationError`, which is a `ValueError`; all errors of msmemscope are `MsmemscopeError`.
`msmemscope.__version__` is the version as text.
"""


SECTIONS: dict[str, tuple[str, ...]] = {
    "Collecting": ("config", "start", "step", "stop", "collect"),
    "Labels": ("describe.describer",),
    "Snapshots": ("take_snapshot", "TakeSnapshot"),
    "Who holds it": ("who_holds",),
    "Trace of Python functions": ("tracer.start", "tracer.stop", "RecordFunction"),
    "Watching memory": ("watcher.watch", "watcher.remove", "remove", "enable_npu_sanitizer"),
    "Frameworks": ("init_framework_hooks", "cleanup_framework_hooks"),
    "Analysing": (
        "check_leaks",
        "check_inefficient",
        "analyze",
        "list_analyzers",
        "get_analyzer_config",
        "load",
        "load_all",
        "scan",
        "Recording",
    ),
}
"""Heading to public names, without `msmemscope.`."""

MODULES = ("describe", "tracer", "watcher", "analyzer")
"""Public names that are modules."""

INTEGRATIONS: dict[str, str] = {
    "IPython and notebooks": "msmemscope.integrations.ipython",
    "transformers": "msmemscope.integrations.transformers",
    "Lightning": "msmemscope.integrations.lightning",
    "pytest": "pytest_msmemscope",
}
"""Heading to the module whose docstring says how it is used; a class `MsmemscopeCallback` in it has its own."""


def page() -> str:
    """The page as Markdown.

    Raises:
        ValueError: If a public name has no place on it.
    """
    places = _places()
    parts = [HEAD, "\n| name | |\n|---|---|\n"]
    parts.extend(
        f"| [`{name}`](#{_anchor(name)}) | {summary(_definition(name).docstring)} |\n"
        for names in places.values()
        for name in names
    )
    for heading, names in places.items():
        parts.append(f"\n## {heading}\n")
        parts.extend(map(_section, names))
    parts.append("\n## Where programs run\n")
    parts.extend(_integration(heading, module) for heading, module in INTEGRATIONS.items())
    return "".join(parts)


def _places() -> dict[str, list[str]]:
    """Heading to the full names below it; every public name must have its place."""
    top = [name for name in _exported("msmemscope") if name not in {"__version__", *MODULES}]
    expected = {f"msmemscope.{name}" for name in top}
    for module in (f"msmemscope.{module}" for module in MODULES):
        expected |= {f"{module}.{name}" for name in _exported(module) if _homes().get(name) != module}
    places = {heading: [f"msmemscope.{name}" for name in names] for heading, names in SECTIONS.items()}
    described = {name for names in places.values() for name in names}
    if described != expected:
        message = f"docs/generators/python_page.py and __all__ differ: {sorted(described ^ expected)}"
        raise ValueError(message)
    return places


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def _section(name: str) -> str:
    definition = _definition(name)
    parts = [f"\n### `{name}`\n\n```text\n", *(f"{line}\n" for line in _signatures(name, definition)), "```\n\n"]
    parts.append(markdown(definition.docstring))
    details = [detail for node in definition.nodes if isinstance(node, ast.ClassDef) for detail in _details(node)]
    if details:
        parts.append("\nMembers:\n\n" + "".join(f"{detail}\n" for detail in details))
    return "".join(parts)


def _exported(module: str) -> list[str]:
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    message = f"{module} has no __all__"
    raise ValueError(message)


_Node: TypeAlias = "ast.FunctionDef | ast.ClassDef"


@dataclass(frozen=True)
class _Definition:
    """Where a name is defined."""

    module: str
    nodes: tuple[_Node, ...]
    """More than one where a function has overloads."""
    docstring: str


@cache
def _definition(name: str) -> _Definition:
    """Find the definition of a full public name."""
    package, _, rest = name.partition(".")
    module, _, attribute = rest.rpartition(".")
    return _defined(f"{package}.{module}" if module else _homes()[attribute], attribute)


@cache
def _homes() -> dict[str, str]:
    """Name to module, as `msmemscope.__getattr__` resolves it."""
    for node in parsed("msmemscope").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            return dict(ast.literal_eval(node.value))
    message = "msmemscope has no _HOMES"
    raise ValueError(message)


def _defined(module: str, name: str) -> _Definition:
    nodes: list[_Node] = []
    for node in statements(module):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            nodes.append(node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = next((alias.name for alias in node.names if name == (alias.asname or alias.name)), None)
            if imported is not None:
                return _defined(node.module, imported)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and ast.unparse(node.targets[0]) == name:
            return _defined(module, node.value.id)
    docstrings = [docstring for node in nodes if (docstring := ast.get_docstring(node))]
    if not docstrings:
        message = f"{module}.{name} has no docstring"
        raise ValueError(message)
    return _Definition(module, tuple(nodes), docstrings[-1])


def _signatures(name: str, definition: _Definition) -> Iterator[str]:
    """How it is called; of a function with overloads, each of those."""
    functions = [node for node in definition.nodes if isinstance(node, ast.FunctionDef)]
    overloads = [node for node in functions if any(ast.unparse(one) == "overload" for one in node.decorator_list)]
    source = Source(definition.module)
    for function in overloads or functions:
        returned = f" -> {source.annotation(function.returns)}" if function.returns else ""
        yield _call(name, source.arguments(function.args), returned)
    for node in definition.nodes:
        if isinstance(node, ast.ClassDef):
            yield _call(name, _constructor_arguments(node, source))


def _call(name: str, arguments: Sequence[str], returned: str = "") -> str:
    line = f"{name}({', '.join(arguments)}){returned}"
    if len(line) <= LONGEST_LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){returned}"])


def _constructor_arguments(node: ast.ClassDef, source: Source) -> list[str]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return source.arguments(method.args)[1:]
    return [source.field(one) for one in node.body if isinstance(one, ast.AnnAssign) and not _is_constant(one)]


def _is_constant(field: ast.AnnAssign) -> bool:
    return ast.unparse(field.annotation).startswith(("ClassVar", "Final"))


def _details(node: ast.ClassDef) -> Iterator[str]:
    """Fields with what is documented right below them, and methods that no base class has."""
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield f"- `{ast.unparse(field.target)}`: {' '.join(str(below.value.value).split())}"
        elif isinstance(field, ast.FunctionDef) and not field.name.startswith("_") and bases <= {"Protocol", "Generic"}:
            is_property = any("property" in ast.unparse(decorator) for decorator in field.decorator_list)
            call = "" if is_property else "()"
            yield f"- `{field.name}{call}`: {summary(ast.get_docstring(field) or '')}."


def _integration(heading: str, module: str) -> str:
    docstring = ast.get_docstring(parsed(module))
    if docstring is None:
        message = f"{module} has no docstring"
        raise ValueError(message)
    parts = [f"\n### {heading}\n\n{markdown(docstring)}"]
    for node in ast.walk(parsed(module)):
        # The class that is made when it is needed, not the one that type checkers see.
        if isinstance(node, ast.FunctionDef) and node.name == "_make_class":
            classes = [inner for inner in ast.walk(node) if isinstance(inner, ast.ClassDef)]
            parts.extend(f"\n{markdown(text)}" for inner in classes if (text := ast.get_docstring(inner)))
    return "".join(parts)
