"""docs/python.md, from the signatures and docstrings of the public names.

The sources are read, not imported: the page is the same wherever it is made, with or without torch, IPython or a
trainer.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from generators.docstrings import markdown, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCES = Path(__file__).parents[2] / "src"

HEAD = """\
# The Python API

<!-- Generated from the docstrings in src/ by `make docs`; do not edit. -->

`import msmemscope` is cheap and needs neither torch nor an accelerator. Every name can be used with and without the
command line. `import msleaks` gives the same names; results then go to the older default folder.

Errors of arguments are `ConfigurationError`, which is a `ValueError`; all errors of msmemscope are `MsmemscopeError`.
`msmemscope.__version__` is the version as text.
"""


@dataclass(frozen=True)
class PublicName:
    """A function or class as users write it, and where it is defined."""

    name: str
    module: str
    attribute: str


SECTIONS: dict[str, tuple[PublicName, ...]] = {
    "Collecting": (
        PublicName("msmemscope.config", "msmemscope.capture.session", "config"),
        PublicName("msmemscope.start", "msmemscope.capture.session", "start"),
        PublicName("msmemscope.step", "msmemscope.capture.session", "step"),
        PublicName("msmemscope.stop", "msmemscope.capture.session", "stop"),
        PublicName("msmemscope.collect", "msmemscope.capture.collection", "collect"),
    ),
    "Labels": (PublicName("msmemscope.describe.describer", "msmemscope.describe", "describer"),),
    "Snapshots": (
        PublicName("msmemscope.take_snapshot", "msmemscope.capture.snapshot", "take_snapshot"),
        PublicName("msmemscope.TakeSnapshot", "msmemscope.capture.snapshot", "TakeSnapshot"),
    ),
    "Trace of Python functions": (
        PublicName("msmemscope.tracer.start", "msmemscope.tracer", "start"),
        PublicName("msmemscope.tracer.stop", "msmemscope.tracer", "stop"),
        PublicName("msmemscope.RecordFunction", "msmemscope.capture.record_function", "RecordFunction"),
    ),
    "Frameworks": (
        PublicName("msmemscope.init_framework_hooks", "msmemscope.capture.frameworks", "init_framework_hooks"),
        PublicName("msmemscope.cleanup_framework_hooks", "msmemscope.capture.frameworks", "cleanup_framework_hooks"),
    ),
}

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
    _check_completeness()
    parts = [HEAD, "\n| name | |\n|---|---|\n"]
    definitions = {public: _definition(public.module, public.attribute) for public in _public_names()}
    for public, (_, _, docstring) in definitions.items():
        parts.append(f"| [`{public.name}`](#{_anchor(public.name)}) | {summary(docstring)} |\n")
    for heading, names in SECTIONS.items():
        parts.append(f"\n## {heading}\n")
        for public in names:
            module, node, docstring = definitions[public]
            signatures = "\n".join(_signatures(public.name, module, node))
            parts.append(f"\n### `{public.name}`\n\n```text\n{signatures}\n```\n\n{markdown(docstring)}")
    parts.append("\n## Where programs run\n")
    parts.extend(_integration(heading, module) for heading, module in INTEGRATIONS.items())
    return "".join(parts)


def _public_names() -> Iterator[PublicName]:
    for names in SECTIONS.values():
        yield from names


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def _check_completeness() -> None:
    described = {public.name for public in _public_names()}
    modules = ("describe", "tracer")
    expected = {f"msmemscope.{name}" for name in _exported("msmemscope") if name not in {"__version__", *modules}}
    expected |= {f"msmemscope.{module}.{name}" for module in modules for name in _exported(f"msmemscope.{module}")}
    if described != expected:
        message = f"docs/generators/python_page.py and __all__ differ: {sorted(described ^ expected)}"
        raise ValueError(message)


def _exported(module: str) -> list[str]:
    for node in _parsed(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    message = f"{module} has no __all__"
    raise ValueError(message)


@cache
def _parsed(module: str) -> ast.Module:
    path = SOURCES.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


_Definition = ast.FunctionDef | ast.ClassDef


def _definition(module: str, name: str) -> tuple[str, list[_Definition], str]:
    """The module that defines a name, its definitions (all overloads), and its docstring."""
    found: list[_Definition] = []
    for node in ast.walk(_parsed(module)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            found.append(node)
        elif isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return _definition(node.module, name)
    docstrings = [docstring for node in found if (docstring := ast.get_docstring(node))]
    if not docstrings:
        message = f"{module}.{name} has no docstring"
        raise ValueError(message)
    return module, found, docstrings[-1]


def _signatures(name: str, module: str, definitions: Iterable[_Definition]) -> Iterator[str]:
    """How it is called; of a function with overloads, each of those."""
    functions = [node for node in definitions if isinstance(node, ast.FunctionDef)]
    overloads = [node for node in functions if any(ast.unparse(one) == "overload" for one in node.decorator_list)]
    values = _Values(module)
    for node in overloads or functions:
        returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        yield f"{name}({ast.unparse(values.visit(node.args))}){returned}"
    for node in definitions:
        if isinstance(node, ast.ClassDef):
            yield f"{name}({_constructor_arguments(node, values)})"


def _constructor_arguments(node: ast.ClassDef, values: _Values) -> str:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            arguments = method.args
            arguments.args = arguments.args[1:]
            return ast.unparse(values.visit(arguments))
    return ""


class _Values(ast.NodeTransformer):
    """Replaces names of constants and of aliases of types by what they stand for."""

    def __init__(self, module: str) -> None:
        tree = _parsed(module)
        conditional = [node for one in tree.body if isinstance(one, ast.If) for node in one.body]
        assignments = [node for node in [*tree.body, *conditional] if isinstance(node, ast.Assign)]
        self._known = {
            target.id: node.value
            for node in assignments
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, (ast.Constant, ast.BinOp))
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802 - the name that ast calls
        """Replace one."""
        return self._known.get(node.id, node)


def _integration(heading: str, module: str) -> str:
    docstring = ast.get_docstring(_parsed(module))
    if docstring is None:
        message = f"{module} has no docstring"
        raise ValueError(message)
    parts = [f"\n### {heading}\n\n{markdown(docstring)}"]
    for node in ast.walk(_parsed(module)):
        # The class that is made when it is needed, not the one that type checkers see.
        if isinstance(node, ast.FunctionDef) and node.name == "_make_class":
            for inner in ast.walk(node):
                if isinstance(inner, ast.ClassDef) and (text := ast.get_docstring(inner)):
                    parts.append(f"\n{markdown(text)}")
    return "".join(parts)
