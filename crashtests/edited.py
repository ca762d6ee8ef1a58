"""Where an edit is met: lines of a module, one of which is executed before anything can be different.

Both sources are compared as syntax trees, down to the smallest statements that differ. What is replaced is met when it
is executed; what is inserted, when the statement behind it is, else the one before it, else the one around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from crashtests.mutate import source_of
from crashtests.planted import Edit

# Named as lives name them (anywhere.py): `settle.41`.
Lines = frozenset[str]

_BLOCKS = ("body", "orelse", "finalbody", "handlers")
_AT_IMPORT = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class _AtImport(Exception):
    """The edit is met when the module is imported."""


def edited(edit: Edit) -> Lines | None:
    """The lines at which an edit is met; None if that is when the module is imported."""
    source = source_of(edit.module)
    try:
        met = list(_statements(ast.parse(source), ast.parse(edit.apply(source)), around=None))
    except _AtImport:
        return None
    name = edit.module.rpartition(".")[2]
    return frozenset(f"{name}.{line}" for node in met for line in range(node.lineno, (node.end_lineno or 0) + 1))


def _statements(old: ast.AST, new: ast.AST, around: ast.AST | None) -> Iterator[ast.stmt]:
    """The statements at which it is met that `old`, in a block of `around`, became `new`, of the same kind."""
    blocks = [name for name in old._fields if name in _BLOCKS and isinstance(getattr(old, name), list)]
    rest = [name for name in old._fields if name not in blocks]
    if _text([getattr(old, name) for name in rest]) != _text([getattr(new, name) for name in rest]):
        yield _whole(around if isinstance(old, ast.ExceptHandler) else old)
        return
    for name in blocks:
        yield from _in_block(old, getattr(old, name), getattr(new, name))


def _in_block(around: ast.AST, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    first = _alike(old, new)
    behind = min(_alike(old[::-1], new[::-1]), len(old) - first, len(new) - first)
    gone, come = old[first : len(old) - behind], new[first : len(new) - behind]
    alike = [type(node) for node in gone] == [type(node) for node in come]
    at_import = isinstance(around, ast.Module | ast.ClassDef)
    if alike and not (at_import and any(not isinstance(node, _AT_IMPORT) for node in gone)):
        for node, other in zip(gone, come, strict=True):
            yield from _statements(node, other, around)
    elif at_import or any(isinstance(node, ast.ExceptHandler) for node in (*old, *new)):
        yield _whole(around)
    elif gone:
        yield from (node for node in gone if isinstance(node, ast.stmt))
    else:
        yield _whole([*old[first:], *old[first - 1 : first], around][0])


def _alike(old: Sequence[ast.AST], new: Sequence[ast.AST]) -> int:
    """How many nodes both begin with."""
    pairs = zip(old, new, strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if _text(one) != _text(other)), min(len(old), len(new)))


def _whole(node: ast.AST | None) -> ast.stmt:
    """A statement that a life executes. What stands before the colon of a function is executed at import."""
    if not isinstance(node, ast.stmt) or isinstance(node, _AT_IMPORT):
        raise _AtImport
    return node


def _text(value: Any) -> str:
    """Equal for what is equal but for its place."""
    if isinstance(value, list):
        return str([_text(each) for each in value])
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)
