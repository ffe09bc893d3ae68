"""Attributes of events are typed columns: only the folders of formats know them as texts."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "msmemscope"

PARSERS = frozenset({"compile", "findall", "finditer", "fullmatch", "match", "search"})
"""Functions of `re`, and of what it compiles."""

TEXT_METHODS = frozenset({"extract", "extract_all", "extract_groups", "splitn"})
"""Methods of `str` of a column that take texts apart."""

ATTRIBUTE_NAMES = frozenset({"attribute_id", "attributes", "attribute_texts", "string_frame"})


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """All functions of a module, methods included."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def takes_texts_apart(tree: ast.AST) -> bool:
    """Whether something takes a text apart by a pattern."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, owner = node.func.attr, node.func.value
            if method in TEXT_METHODS and isinstance(owner, ast.Attribute) and owner.attr == "str":
                return True
            if method in PARSERS and (not isinstance(owner, ast.Call)):
                return True
    return False


def names_attributes(tree: ast.AST) -> bool:
    """Whether something names the ids or the texts of attributes."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    return bool(ATTRIBUTE_NAMES & (names | words | keywords))


def offenders() -> set[str]:
    """Modules outside of formats with a function that looks attributes up and takes texts apart."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        if name.startswith("formats/"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        layer = name.partition("/")[0]
        # If an analysis or a table takes a text apart, the text can only be a recorded one.
        units: list[ast.AST] = [tree] if layer in {"analysis", "recording"} else [*functions(tree)]
        if any(names_attributes(unit) and takes_texts_apart(unit) for unit in units):
            found.add(name)
    return found


def test_no_text_of_attributes_is_taken_apart_outside_of_formats() -> None:
    """Whoever needs a figure reads its column of `Recording.attributes`."""
    assert offenders() == set()


def test_names_of_text_forms_stand_in_one_place() -> None:
    """No pattern for `key:value` or `key=value` is written outside of formats."""
    needles = ("page_type:", "alloc_type:", "req_size:", "pinned:true", "CANN@[")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "formats" not in path.parts and any(needle in path.read_text(encoding="utf-8") for needle in needles)
    }
    assert found == set()
