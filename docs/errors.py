"""python docs/errors.py: write docs/errors.md, every message that a command can end with, from the source.

A message is rendered as it stands in the code, with a name in angle brackets for what is filled in. A
name that is given a text in the same function or module (or in the one it is imported from) is replaced
by that text, a call of such a function by what it returns, and an argument by what the callers in the
module give. Left out: errors that only put a place before the message of another one.
"""

from __future__ import annotations

import ast
import errno
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from indexer.base import errors
from indexer.base.errors import LinkseekError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"
PACKAGES = ("indexer", "retriever", "reranker", "app")
KINDS = {kind.__name__: kind for kind in LinkseekError.__subclasses__()}

_MOST_TEXTS = 8  # that one expression can stand for; more are one name
_DEEPEST = 6


class Entry(NamedTuple):
    """A message of one error class, what to do about it, and the module that raises it."""

    kind: str
    message: str
    hint: str
    module: str
    line: int


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """The whole page, as Markdown."""
    kinds = sorted(KINDS.items(), key=lambda item: item[1].exit_code)
    codes = "\n".join(f"| {kind.exit_code} | `{name}` | {_what(kind)} |" for name, kind in kinds)
    pieces = [_HEAD.replace("CODES", codes)]
    for name, kind in kinds:
        pieces.append(f"## Exit code {kind.exit_code}: {name}\n\n{_what(kind)}\n")
        pieces.append(_table(("message", "what to do", "raised in"), _rows(name)))
        if kind is errors.MachineError:
            pieces.append(_SYSTEM + _table(("the system says", "what to do"), _system_errors()))
    return "\n".join(pieces)


def _rows(kind: str) -> list[tuple[str, ...]]:
    """A row for each message, with all that is advised and where it is raised, by its first fixed words."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for entry in entries():
        if entry.kind == kind:
            hints, places = rows.setdefault(" ".join(entry.message.split()), ([], []))
            hints.append(_prose(entry.hint))
            places.append(f"`{entry.module}`")
    ordered = sorted(
        rows, key=lambda message: (re.sub(r"<[^<>]*>|[^a-z ]", "", message.lower()).strip(), message)
    )
    return [(_code(m), *("<br>".join(dict.fromkeys(column)) for column in rows[m])) for m in ordered]


_HEAD = """\
<!-- Written by docs/errors.py from the source; edit that, not this. -->
# Errors

A command that fails prints what is wrong and where, then what to do about it, and ends with an exit code:

| exit code | class | meaning |
|---|---|---|
| 0 | | done |
| 1 | | a mistake of ours: Python's traceback is printed, and a report is welcome |
CODES
| 130 | | interrupted with Ctrl-C; a build goes on when the same command is run again |
| 141 | | whoever read the output has gone (`\\| head`) |

Below, `<name>` stands for what is filled in. To find a message, search this page for words of it that are no
names or numbers. In Python the same errors are exceptions with `message`, `hint` and `exit_code`, all of
them subclasses of `indexer.base.errors.LinkseekError`; the page in the browser shows the same words.
What is counted instead of refused, and the limits of sizes, is in [limits.md](limits.md).
"""

_SYSTEM = """
What the system refuses is told in its own words, with the file's name:

"""


def _what(kind: type[LinkseekError]) -> str:
    return re.sub(r" \(exit code \d+\)", "", (kind.__doc__ or "").strip())


def _system_errors() -> list[tuple[str, ...]]:
    rows = [
        (f"`[Errno {number}] {os.strerror(number)}` ({errno.errorcode[number]})", _prose(hint))
        for number, hint in errors._OS_HINTS.items()
    ]
    return [*sorted(rows), ("`the memory of this machine is used up`", _prose(errors._MEMORY_HINT))]


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _prose(text: str) -> str:
    return re.sub(r"([<>*_\[\]])", r"\\\1", " ".join(text.split()))


# --- what the source says ------------------------------------------------------------------------


@dataclass
class Module:
    """A module's syntax tree, and what its names stand for."""

    name: str
    path: str
    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    inside: dict[ast.AST, ast.FunctionDef] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Module:
        """Parse a file of the repository."""
        inside = path.relative_to(ROOT)
        name = ".".join(inside.with_suffix("").parts).removesuffix(".__init__")
        module = cls(name, str(inside), ast.parse(path.read_text("utf-8")))
        for statement in module.tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                module.values[statement.targets[0].id] = statement.value
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module.imported |= {
                    alias.asname or alias.name: (node.module, alias.name) for alias in node.names
                }
            elif isinstance(node, ast.FunctionDef):
                module.functions[node.name] = node
                module.inside |= dict.fromkeys(ast.walk(node), node)  # inner functions come later and win
        return module


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: its module, its function, and what the function's arguments are."""

    module: Module
    function: ast.FunctionDef | None = None
    given: Mapping[str, tuple[ast.expr, Scope]] = field(default_factory=dict)


@cache
def modules() -> dict[str, Module]:
    """The modules of the packages by name."""
    paths = itertools.chain.from_iterable((ROOT / package).rglob("*.py") for package in PACKAGES)
    return {module.name: module for module in map(Module.read, sorted(paths))}


def entries() -> list[Entry]:
    """Every message of the packages, in the order of the source."""
    return [entry for module in modules().values() for entry in _entries(module)]


def _entries(module: Module) -> Iterator[Entry]:
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS):
            continue
        for scope in _scopes(node, module):
            for message, hint, inside in _words(node, scope):
                if any(_repeats(part) for part in ast.walk(message)):
                    continue
                hints = _texts(hint, inside) if hint else [""]
                for text, advice in itertools.product(_texts(message, inside), hints):
                    yield Entry(node.func.id, text, advice, module.path, node.lineno)


def _words(call: ast.Call, scope: Scope) -> Iterator[tuple[ast.expr, ast.expr | None, Scope]]:
    """Message and hint of an error, or those that a function returns for it: `InputError(*_none(path))`."""
    match call.args:
        case [ast.Starred(value=ast.Call() as inner)] if function := scope.module.functions.get(
            _called(inner)
        ):
            given = dict(_bind(inner, function, scope))
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                    yield node.value.elts[0], node.value.elts[1], Scope(scope.module, function, given)
        case [message, *rest]:
            yield message, rest[0] if rest else None, scope


def _repeats(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "message"


def _scopes(node: ast.Call, module: Module) -> Iterator[Scope]:
    """Where an error is made: once for each call of a function that is given its words."""
    function = module.inside.get(node)
    used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    wanted = used & set(_parameters(function)) if function else set()
    told = False
    for call, caller in _calls(function, module) if wanted else ():
        given = dict(_bind(call, function, Scope(module, caller)))
        if any(_is_text(expression, scope) for name, (expression, scope) in given.items() if name in wanted):
            told = True
            yield Scope(module, function, given)
    if not told:
        yield Scope(module, function)


def _calls(
    function: ast.FunctionDef | None, module: Module
) -> Iterator[tuple[ast.Call, ast.FunctionDef | None]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and function and _called(node) == function.name:
            yield node, module.inside.get(node)


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _parameters(function: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def _bind(
    call: ast.Call, function: ast.FunctionDef | None, scope: Scope
) -> Iterator[tuple[str, tuple[ast.expr, Scope]]]:
    for name, value in zip(_parameters(function) if function else (), call.args, strict=False):
        yield name, (value, scope)
    for keyword in call.keywords:
        if keyword.arg:
            yield keyword.arg, (keyword.value, scope)


# --- expressions to texts ------------------------------------------------------------------------


def _texts(node: ast.expr, scope: Scope, depth: int = 0) -> list[str]:
    """The texts that an expression can be; a name in angle brackets where they are not in the source."""
    found = _known(node, scope, depth)
    return found if found and len(found) <= _MOST_TEXTS else [f"<{_name(node)}>"]


def _is_text(node: ast.expr, scope: Scope) -> bool:
    found = _known(node, scope, 0)
    return bool(found) and not all(re.fullmatch("<[^<>]*>", text) for text in found or ())


def _known(node: ast.expr, scope: Scope, depth: int) -> list[str] | None:
    """The texts of an expression whose words are in the source; None for any other."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return _joined([_texts(part, scope, depth) for part in parts])
        case ast.FormattedValue(value=value):
            return _texts(value, scope, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            if not (_known(left, scope, depth) or _known(right, scope, depth)):
                return None
            return _joined([_texts(left, scope, depth), _texts(right, scope, depth)])
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _joined([_texts(left, scope, depth), ["/"], _texts(right, scope, depth)])
        case ast.IfExp(body=first, orelse=second):
            if not (_known(first, scope, depth) or _known(second, scope, depth)):
                return None
            return [*_texts(first, scope, depth), *_texts(second, scope, depth)]
        case ast.Name(id=name) if depth < _DEEPEST:
            return _value(name, scope, depth + 1)
        case ast.Call() if depth < _DEEPEST:
            return _returned(node, scope, depth + 1)
    return None


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(pieces) for pieces in itertools.islice(itertools.product(*parts), _MOST_TEXTS + 1)]


def _value(name: str, scope: Scope, depth: int) -> list[str] | None:
    """What a name stands for: an argument, a variable of the function, a constant of a module."""
    if name in scope.given:
        value, outside = scope.given[name]
        return _known(value, outside, depth)
    if scope.function:
        if name in _parameters(scope.function):
            return None
        assigned = [
            node.value
            for node in ast.walk(scope.function)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        if assigned:
            return _some(assigned, name, scope, depth)
    if name in scope.module.values:
        value = scope.module.values[name]
        return _known(value, Scope(scope.module), depth) or _number(value)
    source, original = scope.module.imported.get(name, ("", ""))
    if source in modules() and modules()[source] is not scope.module:
        return _value(original, Scope(modules()[source]), depth)
    return None


def _returned(call: ast.Call, scope: Scope, depth: int) -> list[str] | None:
    """What a function of the packages returns; a text that is cut or joined elsewhere is only a name."""
    module, name = scope.module, _called(call)
    if name in module.imported and isinstance(call.func, ast.Name):
        source, name = module.imported[name]
        if source not in modules():
            return None
        module = modules()[source]
    function = module.functions.get(name)
    if function is None:
        return None
    inside = Scope(module, function, dict(_bind(call, function, scope)))
    returned = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and module.inside.get(node) is function
    ]
    return _some([value for value in returned if value], name, inside, depth)


def _some(values: list[ast.expr], name: str, scope: Scope, depth: int) -> list[str] | None:
    """The texts of all these, with the name for those that are none; None if there is no text at all."""
    found = [_known(value, scope, depth) for value in values]
    if not any(found):
        return None
    return list(dict.fromkeys(text for texts in found for text in texts or [f"<{name.strip('_')}>"]))


def _number(node: ast.expr) -> list[str] | None:
    """A whole number of the source, such as 1 << 17, as messages print it."""
    if not all(isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"))
    return [f"{value:,}"] if isinstance(value, int) else None


def _name(node: ast.expr) -> str:
    """A short name for what an expression gives."""
    match node:
        case ast.Name(id=name):
            return name.strip("_")
        case ast.Constant(value=value):
            return str(value)
        case ast.Attribute(attr="name" | "path" | "id" as name, value=inner):
            return f"{_name(inner)} {name}" if _name(inner) not in ("self", name) else name
        case ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(func=ast.Name(id="len" | "min" | "max")):
            return "number"
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return _name(first)
        case ast.Call(func=ast.Attribute(attr="join"), args=[inner]):
            return _name(inner)
        case ast.Call(func=ast.Name(id="str" | "repr" | "ascii" | "int" | "sorted"), args=[inner, *_]):
            return _name(inner)
        case ast.Call(func=ast.Name(id="map"), args=[_, inner]):
            return _name(inner)
        case ast.Call(func=function):
            return _name(function)
        case ast.Subscript(value=inner):
            return _name(inner)
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
        case ast.GeneratorExp(generators=[generator]) | ast.ListComp(generators=[generator]):
            return _name(generator.iter)
        case (
            ast.FormattedValue(value=inner)
            | ast.Starred(value=inner)
            | ast.BinOp(left=inner)
            | ast.IfExp(body=inner)
        ):
            return _name(inner)
    return "..."


if __name__ == "__main__":
    main()
