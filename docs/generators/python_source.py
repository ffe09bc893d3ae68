"""Definitions as the sources have them, without importing anything."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parents[2] / "src"


@cache
def parsed(module: str) -> ast.Module:
    """Read a module of this repository by its full name."""
    path = SOURCES.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(module: str) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those within its conditions too."""
    for node in parsed(module).body:
        yield node
        if isinstance(node, ast.If):
            yield from node.body


class Source(ast.NodeTransformer):
    """Writes parts of a module's definitions, with values in place of constants and of aliases of types.

    Args:
        module: Its full name.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace what has a name by what it stands for."""
        return _value(self._module, node.id) or node

    def text(self, node: ast.expr) -> str:
        """Write an expression."""
        expression = self.visit(ast.parse(ast.unparse(node), mode="eval").body)
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            return '"' + expression.value.replace('"', '\\"') + '"'
        return ast.unparse(expression)

    def annotation(self, node: ast.expr) -> str:
        """Write a type; one that is quoted without its quotation marks."""
        expression = self.visit(ast.parse(ast.unparse(node), mode="eval").body)
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            return expression.value
        return ast.unparse(expression)

    def field(self, node: ast.AnnAssign) -> str:
        """Write a field of a dataclass as the argument that it is."""
        return f"{ast.unparse(node.target)}: {self.annotation(node.annotation)}{self._default(node.value)}"

    def arguments(self, node: ast.arguments) -> list[str]:
        """Write the arguments of a function, each for itself."""
        positional = [*node.posonlyargs, *node.args]
        defaults = [None] * (len(positional) - len(node.defaults)) + [*node.defaults]
        written = [self._argument(one, default) for one, default in zip(positional, defaults, strict=True)]
        if node.posonlyargs:
            written.insert(len(node.posonlyargs), "/")
        if node.vararg is not None:
            written.append("*" + self._argument(node.vararg))
        elif node.kwonlyargs:
            written.append("*")
        keyword_only = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        written.extend(self._argument(one, default) for one, default in keyword_only)
        if node.kwarg is not None:
            written.append("**" + self._argument(node.kwarg))
        return written

    def _argument(self, node: ast.arg, default: ast.expr | None = None) -> str:
        if node.annotation is None:
            return f"{node.arg}{self._default(default).replace(' ', '')}"
        return f"{node.arg}: {self.annotation(node.annotation)}{self._default(default)}"

    def _default(self, value: ast.expr | None) -> str:
        return "" if value is None else f" = {self.text(value)}"


@cache
def _value(module: str, name: str) -> ast.expr | None:
    """What a module has under a name, if that is a constant or an alias of a type; where it imports it from, too."""
    for node in statements(module):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return _shown(node.value)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
            return _shown(node.value)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "msmemscope":
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _value(node.module, alias.name)
    return None


def _shown(value: ast.expr) -> ast.expr | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and not value.value.isprintable():
        return None
    return value if isinstance(value, (ast.Constant, ast.BinOp)) else None
