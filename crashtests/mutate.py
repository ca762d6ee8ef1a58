"""Mutants: every small wrong edit of a module that a table of operators makes. From source text to edits, nothing else.

A mutant is one edit at one place, made on the source and not by printing the tree anew, so that everything around it is
what stands in the file. What is left alone: annotations, docstrings, texts (a label or a key is held against its table
by a test; a message is for people), and what stands inside an f-string.

To add an operator: add a function that yields replacements for a node, and its name, to `OPERATORS`.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crashtests.planted import Edit

# The node whose source is replaced, and by what.
Replacement = tuple[ast.AST, str]

_SWAPPED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
}
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.FloorDiv: "*", ast.Mult: "//"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong edit.

    `function`: where, dotted. `lines`: first and last line of what is replaced. `at_import`: it is executed when the
    module is imported, and in no life. `before`, `after`: the lines that it touches, each as one line of text.
    """

    module: str
    function: str
    lines: tuple[int, int]
    at_import: bool
    operator: str
    before: str
    after: str
    source: str
    mutated: str

    @property
    def edit(self) -> Edit:
        """The whole source, since a part of it may stand there twice."""
        return Edit(self.module, self.source, self.mutated)

    @property
    def place(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.lines[0]}"

    def __str__(self) -> str:
        return f"{self.place} {self.function} ({self.operator})\n    - {self.before}\n    + {self.after}"


def source_of(module: str) -> str:
    """The source of a module, which is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no module {module!r} with a source")
    return Path(spec.origin).read_text(encoding="utf-8")


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of `source`, in order of place; each is still a module that can be compiled, which a test holds."""
    seen: set[str] = set()
    text_of = _Source(source)
    for place, node in _nodes(ast.parse(source)):
        for operator, made in OPERATORS.items():
            for target, text in made(text_of, node):
                mutant = _mutant(module, text_of, place, operator, target, text)
                # What two operators make of one place counts once.
                if mutant.mutated not in seen and mutant.mutated != source:
                    seen.add(mutant.mutated)
                    yield mutant


def _mutant(module: str, source: _Source, place: _Place, operator: str, target: ast.AST, text: str) -> Mutant:
    first, last = source.span(target)
    mutated = source.data[:first] + text.encode() + source.data[last:]
    begin, end = source.data.rfind(b"\n", 0, first) + 1, source.data.find(b"\n", last)
    # Some nodes that are replaced are made up, but all have a place.
    lines = target.lineno, target.end_lineno  # type: ignore[attr-defined]
    return Mutant(
        module=module,
        function=place.function,
        lines=lines,
        at_import=place.at_import,
        operator=operator,
        before=_one_line(source.data[begin:end]),
        after=_one_line(mutated[begin : end + len(mutated) - len(source.data)]),
        source=source.data.decode(),
        mutated=mutated.decode(),
    )


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


class _Source:
    """The text of nodes."""

    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte of a node and the byte after its last."""
        lines = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        columns = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[lines[0] - 1] + columns[0], self._starts[lines[1] - 1] + columns[1]

    def __call__(self, node: ast.AST) -> str:
        first, last = self.span(node)
        return self.data[first:last].decode()

    def with_sign(self, node: ast.AST, left: ast.AST, sign: str, right: ast.AST) -> str:
        """`node`, which is left, a sign and right, with another sign; brackets stay where they are."""
        (first, last), (_, begin), (end, _) = self.span(node), self.span(left), self.span(right)
        brackets = [c for c in self.data[begin:end].decode() if c in "()"]
        closing, opening = brackets.count(")") * ")", brackets.count("(") * "("
        between = f"{closing} {sign} {opening}"
        return self.data[first:begin].decode() + between + self.data[end:last].decode()


@dataclass(frozen=True, slots=True)
class _Place:
    function: str = ""
    at_import: bool = True


def _nodes(tree: ast.Module) -> Iterator[tuple[_Place, ast.AST]]:
    """Every node that is not left alone, with where it stands."""
    waiting: list[tuple[_Place, ast.AST]] = [(_Place(), tree)]
    while waiting:
        place, node = waiting.pop(0)
        if not _left_alone(node):
            yield place, node
            waiting[:0] = [(_inside(place, node, child), child) for child in _children(node)]


def _inside(place: _Place, node: ast.AST, child: ast.AST) -> _Place:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return place
    name = f"{place.function}.{node.name}" if place.function else node.name
    # What stands in a class, or before the colon of a function, is executed once, at import.
    return _Place(name, at_import=place.at_import and (isinstance(node, ast.ClassDef) or child not in node.body))


def _left_alone(node: ast.AST) -> bool:
    texts = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    typing_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or texts or typing_only


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "bases"):
            yield from (
                child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)
            )


def _negated(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """A condition turned round. A comparison for equality and the like is, by the operator of comparisons."""
    tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
    for test in tests:
        simple = isinstance(test, ast.Compare) and len(test.ops) == 1
        if not simple and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield test, f"(not ({source(test)}))"


def _not_removed(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"bool({source(node.operand)})"


def _comparison(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """A comparison swapped, or moved by one."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for sign in _SWAPPED[type(node.ops[0])]:
            yield node, source.with_sign(node, node.left, sign, node.comparators[0])


def _and_or(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        # Each in brackets: what binds the parts would else change with the word.
        yield node, f"({word.join(f'({source(value)})' for value in node.values)})"


def _constant(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """A number that is one off, a truth that is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, str(node.value + 1)
        if node.value == 1:
            yield node, "0"


def _arithmetic(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """Another sign; of an `a | b` only a, only b."""
    if isinstance(node, ast.BinOp):
        if sign := _ARITHMETIC.get(type(node.op)):
            yield node, f"({source.with_sign(node, node.left, sign, node.right)})"
        elif isinstance(node.op, ast.BitOr):
            yield node, source(node.left)
            yield node, source(node.right)
    elif isinstance(node, ast.AugAssign) and (sign := _ARITHMETIC.get(type(node.op))):
        yield node, f"{source(node.target)} {sign}= {source(node.value)}"


def _statement(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """A statement left out, but for one without which a name would not be there."""
    gone = isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.Delete | ast.AugAssign)
    gone = gone or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    if isinstance(node, ast.Assign):
        gone = not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        gone = not isinstance(node.target, ast.Name)
    if gone:
        yield node, "pass"


def _returned(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield node, "return None"


def _handler(source: _Source, node: ast.AST) -> Iterator[Replacement]:
    """What an exception handler or a `finally` does, left out."""
    if isinstance(node, ast.ExceptHandler | ast.Try):
        body = node.body if isinstance(node, ast.ExceptHandler) else node.finalbody
        if body and not isinstance(body[0], ast.Pass):
            whole = ast.Pass(lineno=body[0].lineno, col_offset=body[0].col_offset)
            whole.end_lineno, whole.end_col_offset = body[-1].end_lineno, body[-1].end_col_offset
            yield whole, "pass"


OPERATORS: dict[str, Callable[[_Source, ast.AST], Iterator[Replacement]]] = {
    "negated condition": _negated,
    "not removed": _not_removed,
    "comparison": _comparison,
    "and/or": _and_or,
    "constant": _constant,
    "arithmetic": _arithmetic,
    "statement left out": _statement,
    "return None": _returned,
    "handler emptied": _handler,
}
