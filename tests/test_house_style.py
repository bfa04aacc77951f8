"""Tails are bounded: sizes, arguments, interfaces and a few habits, checked on the syntax tree.

Hard bounds fail at once. Between the aim and the hard bound a file needs a line in `LONG_FILES`,
and functions may be `LONG_FUNCTIONS_SHARE` of all.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tierkv

ROOT = Path(__file__).parents[1]
FILE_AIM, FILE_HARD = 300, 400
FUNCTION_AIM, FUNCTION_HARD = 40, 60
LONG_FUNCTIONS_SHARE = 0.03
CLASS_HARD = 200
ARGUMENTS = 6
ABSTRACT_METHODS = 4
PUBLIC_NAMES = 25

LONG_FILES: frozenset[str] = frozenset()
"""Files allowed between the aim and the hard bound; a handful at most."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A parsed file."""

    name: str
    text: str

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(ast.parse(self.text)) if isinstance(node, kinds))

    def at(self, node: ast.AST, what: str) -> str:
        return f"{self.name}:{node.lineno}: {what}"


def sources() -> list[Source]:
    paths = [*ROOT.glob("tierkv/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    return [Source(str(path.relative_to(ROOT)), path.read_text()) for path in sorted(paths)]


def size(node: ast.AST) -> int:
    """Lines of a definition, decorators not counted."""
    return node.end_lineno - node.lineno + 1


def body_size(node: Function) -> int:
    """Lines of a function without its docstring."""
    first = node.body[0]
    return size(node) - (size(first) if ast.get_docstring(node, clean=False) is not None else 0)


def arguments(node: Function) -> int:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def last_name(node: ast.AST) -> str:
    """``method`` for ``a.method``, ``name`` for ``name``, else nothing."""
    return getattr(node, "attr", getattr(node, "id", ""))


def abstract_methods(node: ast.ClassDef) -> list[str]:
    return [
        item.name
        for item in node.body
        if isinstance(item, Function)
        and any(last_name(decorator) == "abstractmethod" for decorator in item.decorator_list)
    ]


def swallows(node: ast.ExceptHandler) -> bool:
    """Whether the handler catches everything and does nothing."""
    broad = node.type is None or last_name(node.type) in ("Exception", "BaseException")
    return broad and all(
        isinstance(item, ast.Pass | ast.Continue)
        or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
        for item in node.body
    )


def reads_environment(node: ast.AST) -> bool:
    words = ("environ", "environb", "getenv", "getenvb")
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in words for alias in node.names)
    return isinstance(node, ast.Attribute) and node.attr in words and last_name(node.value) == "os"


def is_operator_file(source: Source) -> bool:
    """Operator schemas are flat: kernels and their fakes take what the schema lists."""
    return source.name.startswith("tierkv/ops/")


def may_read_environment(source: Source) -> bool:
    """The doctor's subject is the environment it finds."""
    return source.name == "tierkv/cli/checks.py"


def long_files(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > FILE_HARD:
        yield f"{source.name}: {lines} lines, the hard bound is {FILE_HARD} (split it)"
    elif lines > FILE_AIM and source.name not in LONG_FILES:
        yield f"{source.name}: {lines} lines, the aim is {FILE_AIM} (split it)"


def long_functions(source: Source) -> Iterator[str]:
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        if body_size(node) > FUNCTION_HARD:
            yield source.at(
                node,
                f"{node.name} has {body_size(node)} lines without docstring, "
                f"the hard bound is {FUNCTION_HARD}",
            )


def long_classes(source: Source) -> Iterator[str]:
    for node in source.nodes(ast.ClassDef):
        if size(node) > CLASS_HARD:
            yield source.at(node, f"{node.name} has {size(node)} lines, the bound is {CLASS_HARD}")


def many_arguments(source: Source) -> Iterator[str]:
    if is_operator_file(source):
        return
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        if arguments(node) > ARGUMENTS:
            yield source.at(
                node,
                f"{node.name} takes {arguments(node)} arguments, the bound is {ARGUMENTS} "
                "(make a frozen class)",
            )


def wide_interfaces(source: Source) -> Iterator[str]:
    for node in source.nodes(ast.ClassDef):
        if len(abstract_methods(node)) > ABSTRACT_METHODS:
            yield source.at(
                node,
                f"{node.name} has {len(abstract_methods(node))} abstract methods, "
                f"the bound is {ABSTRACT_METHODS}: {', '.join(abstract_methods(node))}",
            )


def swallowed_errors(source: Source) -> Iterator[str]:
    for node in source.nodes(ast.ExceptHandler):
        if swallows(node):
            yield source.at(node, "every exception is caught and swallowed (name the error)")


def environment_reads(source: Source) -> Iterator[str]:
    if may_read_environment(source):
        return
    for node in source.nodes(ast.Attribute, ast.ImportFrom):
        if reads_environment(node):
            yield source.at(node, "reads the environment (make it configuration)")


RULES = [
    long_files,
    long_functions,
    long_classes,
    many_arguments,
    wide_interfaces,
    swallowed_errors,
    environment_reads,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    faults = [fault for source in sources() for fault in rule(source)]
    assert not faults, "\n" + "\n".join(faults)


def test_few_functions_are_long():
    functions = [
        (body_size(node), source.at(node, node.name))
        for source in sources()
        for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    ]
    long = sorted((entry for entry in functions if entry[0] > FUNCTION_AIM), reverse=True)
    share = len(long) / max(1, len(functions))
    listing = "\n".join(f"{lines} lines: {place}" for lines, place in long)
    assert share <= LONG_FUNCTIONS_SHARE, (
        f"{share:.1%} of {len(functions)} functions have over {FUNCTION_AIM} lines, "
        f"the bound is {LONG_FUNCTIONS_SHARE:.0%}\n{listing}"
    )


def test_exceptions_are_still_needed():
    needed = {s.name for s in sources() if len(s.text.splitlines()) > FILE_AIM}
    assert needed >= LONG_FILES, f"LONG_FILES lists what is short or gone: {LONG_FILES - needed}"


def test_few_public_names():
    names = tierkv.__all__
    assert len(names) <= PUBLIC_NAMES, f"tierkv.__all__ has {len(names)}, bound {PUBLIC_NAMES}"


def lines(count: int) -> str:
    return "    x = 1\n" * count


PLANTED = {
    long_files: "x = 1\n" * (FILE_AIM + 1),
    long_functions: "def f():\n" + lines(FUNCTION_HARD),
    long_classes: "class C:\n" + lines(CLASS_HARD),
    many_arguments: "class C:\n    def f(self, a, b, c, d, /, e, *, f, g=1): ...\n",
    wide_interfaces: "class C(ABC):\n"
    + "".join(f"    @abc.abstractmethod\n    def f{i}(self): ...\n" for i in range(5)),
    swallowed_errors: "try:\n    f()\nexcept Exception:\n    pass\n",
    environment_reads: "import os\nx = os.environ['X']\n",
}
GOOD = '''
import os
def f(a, b, c, d, e, g):
    """Long.
{}
    """
    try:
        return os.path.join(a, b)
    except Exception as error:
        raise ValueError from error
'''.format("\n" * FUNCTION_HARD)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_finds_a_planted_fault(rule):
    assert list(rule(Source("tierkv/planted.py", PLANTED[rule])))
    assert not list(rule(Source("tierkv/good.py", GOOD)))


def test_operators_may_take_many_arguments():
    assert not list(many_arguments(Source("tierkv/ops/planted.py", PLANTED[many_arguments])))
