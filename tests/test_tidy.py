"""Rules that no linter knows, kept by reading the code's syntax trees.

They keep directions and promises, not sizes: strata, docstrings, absolute imports, no state at
import, side effects in their one place.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("storage", "server", "catalog", "jobs", "s3tables", "sql", "program", "pipeline")
STRATA = ("rule", "engine", "face", "wiring")
BANNED_NAMES = {
    "utils", "helpers", "common", "misc", "core", "base", "manager", "handlers", "impl", "types",
    "http",
}  # fmt: skip
NOT_IN_RULES = {
    "os", "time", "uuid", "asyncio", "logging", "lmdb", "starlette", "subprocess", "socket",
    "threading", "random", "secrets", "tempfile", "shutil",
}  # fmt: skip
NOT_IN_FACES = {"os", "lmdb", "shutil", "tempfile", "subprocess", "datafusion", "sqlglot"}
DISK_CALLS = {"fsync", "fdatasync", "link", "unlink", "rename", "replace_file", "open"}
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@functools.cache
def modules() -> list[Path]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted([*paths, ROOT / "mini.py", ROOT / "provision.py"])


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten() -> Iterator[None]:
    """The trees go when all is read: later tests of the same process have their memory."""
    yield
    for each in list(globals().values()):
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@functools.cache
def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def stratum_of(path: Path) -> str | None:
    docstring = ast.get_docstring(tree_of(path)) or ""
    word = docstring.partition(":")[0]
    return word if word in STRATA else None


def imports_of(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node, name.name
        elif isinstance(node, ast.ImportFrom):
            yield node, "." * node.level + (node.module or "")


# A rule is one test over all modules: a test for each of hundreds of modules and each rule costs
# half a minute of pytest's own time.


def test_a_module_says_what_it_is() -> None:
    """A docstring is its theory; the first word is one of the strata."""
    assert [label(path) for path in modules() if not ast.get_docstring(tree_of(path))] == []
    without_stratum = [
        label(path) for path in modules() if path.name != "__init__.py" and stratum_of(path) is None
    ]
    assert without_stratum == []


def test_a_package_init_holds_a_docstring_alone() -> None:
    inits = [path for path in modules() if path.name == "__init__.py"]
    assert [label(path) for path in inits if len(tree_of(path).body) != 1] == []


def test_a_module_name_says_something() -> None:
    assert [label(path) for path in modules() if path.stem in BANNED_NAMES] == []


def test_imports_are_absolute_and_fit_the_stratum() -> None:
    faults = []
    for path in modules():
        stratum = stratum_of(path)
        unwanted = {"rule": NOT_IN_RULES, "face": NOT_IN_FACES}.get(stratum or "", set())
        for node, name in imports_of(path):
            if name.startswith("."):
                faults.append(f"{label(path)}:{node.lineno}: relative import")
            if (top := name.partition(".")[0]) in unwanted:
                faults.append(f"{label(path)}:{node.lineno}: a {stratum} imports {top}")
    assert faults == []


ENTRY_POINTS = ("mini", "pipeline.__main__")
UNREACHED: dict[str, str] = {}
"""Modules that no entry point reaches yet, and what they wait for."""


def test_every_module_is_reached_from_an_entry_point() -> None:
    named = {dotted(path): path for path in modules()}
    reached: set[str] = set()
    waiting = list(ENTRY_POINTS)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in named:
            continue
        reached.add(name)
        # Children are started by the name of their module.
        texts = {
            node.value
            for node in nodes_of(named[name])
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        waiting += [*own_imports(named[name], named), *(texts & named.keys())]
        waiting.append(name.rpartition(".")[0])
    assert named.keys() - reached - {"provision"} == UNREACHED.keys()


UNUSED: Mapping[str, str] = {
    "catalog.layout.RULES": "the closed list of the rules that a refusal may name",
}
"""Top-level names that no product code refers to, and what they are there for."""


def test_every_top_level_name_is_used_by_the_product() -> None:
    uses: set[str] = set()
    defined: dict[str, str] = {}
    for path in modules():
        for node, below in nodes_by_statement(path):
            names = names_defined_by(node)
            defined.update({f"{dotted(path)}.{name}": name for name in names})
            uses |= names_used_by(below) - names
    unused = {full for full, name in defined.items() if name not in uses}
    assert unused == UNUSED.keys()


def names_defined_by(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines; dunders are for Python itself."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return set() if name.startswith("__") else {name}
    return set()


def names_used_by(below: tuple[ast.AST, ...]) -> set[str]:
    """The names that the nodes of a statement read, import, take as attributes or annotate by."""
    uses: set[str] = set()
    for each in below:
        match each:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                uses.add(name)
            case ast.ImportFrom(names=aliases):
                uses |= {alias.name for alias in aliases}
            case ast.Constant(value=str(text)) if len(text) < 80:
                uses |= set(re.findall(r"\w+", text))
    return uses


def test_imports_between_our_modules_go_down_the_strata() -> None:
    """A rule imports rules alone, and an engine no face; what only types need does not count."""
    named = {dotted(path): path for path in modules()}
    above = {"rule": {"engine", "face", "wiring"}, "engine": {"face", "wiring"}}
    across = {
        (name, other)
        for name, path in named.items()
        for other in own_imports(path, named)
        if stratum_of(named[other]) in above.get(stratum_of(path) or "", ())
    }
    assert across == set()


def dotted(path: Path) -> str:
    """The name that a module is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def own_imports(path: Path, named: Mapping[str, Path]) -> set[str]:
    """Our modules that a module imports when it runs."""
    return running_imports(path) & named.keys()


@functools.cache
def running_imports(path: Path) -> set[str]:
    imported: set[str] = set()

    class Imports(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                self.generic_visit(node)

        def visit_Import(self, node: ast.Import) -> None:
            imported.update(name.name for name in node.names)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            imported.add(node.module or "")
            imported.update(f"{node.module}.{name.name}" for name in node.names)

        def visit_Expr(self, node: ast.Expr) -> None:
            """Expressions have no imports."""

    Imports().visit(tree_of(path))
    return imported


def test_the_packages_that_are_declared_are_those_the_product_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *extras["spark"], *extras["kafka"]]
    declared = {canonical(text.partition("[")[0]) for text in texts}
    ours = {path.name.removesuffix(".py") for path in ROOT.iterdir()}
    distributions = importlib.metadata.packages_distributions()
    tops = {name.partition(".")[0] for path in modules() for _, name in imports_of(path)}
    imported = {
        canonical(distribution)
        for top in tops - ours - sys.stdlib_module_names
        for distribution in distributions.get(top, [top])
    }
    assert imported - PROVIDED == declared


def canonical(name: str) -> str:
    """A distribution's name, as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


PROVIDED = {"py4j"}
"""Imported, and a part of pyspark."""


def nodes(*node_types: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    """All nodes of some types of all modules."""
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, node_types):
                yield path, node


@functools.cache
def nodes_by_statement(path: Path) -> tuple[tuple[ast.stmt, tuple[ast.AST, ...]], ...]:
    """The statements of a module's top level, each with the nodes of its tree."""
    return tuple((node, tuple(walk(node))) for node in tree_of(path).body)


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(node for _, below in nodes_by_statement(path) for node in below)


def walk(top: ast.AST) -> list[ast.AST]:
    """The nodes of a tree: `ast.walk` in half of its time. Contexts (Load, Store) are left out."""
    below = [top]
    for node in below:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                below += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                below.append(value)
    return below


def test_a_late_import_says_why() -> None:
    """An import inside a function needs a reason beside it, or in the module's docstring."""
    faults = []
    imported: dict[Path, list[ast.AST]] = {path: [] for path in modules()}
    for path, node in nodes(ast.Import, ast.ImportFrom):
        imported[path].append(node)
    for path, outer in nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        late = [n for n in imported[path] if outer.lineno < n.lineno <= outer.end_lineno]
        if not late or label(path) in ("mini.py", "program/late_sql.py"):
            continue
        first = min(node.lineno for node in late)
        if "#" not in "\n".join(path.read_text().splitlines()[max(0, first - 5) : first]):
            faults.append(f"{label(path)}:{first}: a late import without its reason")
    assert faults == []


def test_nothing_mutable_lives_at_module_level() -> None:
    faults = []
    for path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                value: ast.expr | None = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names, value = [node.target.id], node.value
            else:
                continue
            if names == ["__all__"] or not isinstance(value, MUTABLE):
                continue
            if not all(name.lstrip("_").isupper() for name in names):
                faults.append(f"{label(path)}:{node.lineno}: module-level state {names}")
    assert faults == []


def test_a_constant_table_is_never_changed() -> None:
    """Upper-case tables are read, never written: no subscript assignment, no mutating call."""
    faults = []
    for path, node in nodes(ast.Assign, ast.Delete, ast.Call):
        where = f"{label(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                match target:
                    case ast.Subscript(value=ast.Name(id=name)) if name.isupper():
                        faults.append(f"{where}: {name}")
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
                name.isupper() and method in MUTATING
            ):
                faults.append(f"{where}: {name}.{method}")
    assert faults == []


MUTATING = {"append", "extend", "insert", "update", "add", "setdefault", "pop", "clear", "remove"}


def test_only_the_disk_module_syncs_and_moves() -> None:
    """Below mini.py, storage/disk.py alone fsyncs, links, moves and unlinks."""
    exempt = {"storage/disk.py", "mini.py", "provision.py"}
    faults = []
    for path, node in nodes(ast.Call):
        if label(path) in exempt or label(path).startswith("pipeline/"):
            continue
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name, lineno=line)) if (
                name in DISK_CALLS
            ):
                faults.append(f"{label(path)}:{line}: os.{name}")
    assert faults == []


def test_dataclasses_are_frozen_and_keyword_only() -> None:
    """Values are frozen. A mutable holder says so in its docstring with the word `mutable`."""
    faults = []
    for path, node in nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = ast.unparse(call.func if call else decorator)
            if name not in {"dataclass", "dataclasses.dataclass"}:
                continue
            flags = {k.arg: ast.unparse(k.value) for k in (call.keywords if call else [])}
            if "mutable" in (ast.get_docstring(node) or "").lower():
                continue
            faults += [
                f"{label(path)}: {node.name} is not {flag}"
                for flag in ("frozen", "kw_only")
                if flags.get(flag) != "True"
            ]
    assert faults == []


def test_what_runs_in_a_transaction_assigns_no_outer_variable() -> None:
    """A function of a Reading runs again when its Batch is planned again: it returns its result."""
    faults = []
    for path, node in nodes(ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        if not is_of_reading(node):
            continue
        assigned = {
            each.id
            for statement in node.body
            if not isinstance(statement, ast.FunctionDef)
            for each in ast.walk(statement)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        faults += [
            f"{label(path)}:{each.lineno}: nonlocal {', '.join(each.names)}"
            for each in ast.walk(node)
            if isinstance(each, ast.Nonlocal)
            and (each in node.body or not assigned.issuperset(each.names))
        ]
    assert faults == []


def test_what_runs_in_a_transaction_changes_no_outer_collection() -> None:
    """As for variables. `batch.decide_in_order` makes its list anew each time it is planned."""
    faults = []
    for path, node in nodes(ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        if not is_of_reading(node):
            continue
        below = walk(node)
        own = {each.arg for each in below if isinstance(each, ast.arg)}
        own |= {
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        for each in below:
            match each:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                    if method in MUTATING and name not in own:
                        faults.append(f"{label(path)}: {node.name}: {name}.{method}")
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                    if name not in own:
                        faults.append(f"{label(path)}: {node.name}: {name}[...]")
    assert faults == ["storage/batch.py: derive: results.append"]


def is_of_reading(function: ast.FunctionDef) -> bool:
    """Return whether a function gets a state of the index that is not committed."""
    annotations = [each.annotation for each in function.args.args if each.annotation is not None]
    return any(ast.unparse(each).rpartition(".")[2] == "Reading" for each in annotations)


def test_a_tables_file_is_read_by_the_proof_that_its_reader_may() -> None:
    """The proofs are made in one place each, and few modules can open objects without one.

    catalog/store.py reads metadata files, which the pointer names; sql/writes.py only writes;
    sql/stages.py and sql/table_stages.py read the bucket of stages alone.
    """
    makers = {"ReadableFile": "catalog/readers.py", "OpenedFile": "catalog/files.py"}
    openers = {
        "catalog/files.py",
        "catalog/store.py",
        "sql/stages.py",
        "sql/table_stages.py",
        "sql/writes.py",
    }
    faults = []
    for path, node in nodes(ast.Call, ast.ImportFrom):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                if makers.get(name, label(path)) != label(path):
                    faults.append(f"{label(path)}: {name}")
            case ast.ImportFrom(module="storage", names=aliases):
                opens = "objects" in {alias.name for alias in aliases}
                above = label(path).startswith(("catalog/", "sql/", "s3tables/"))
                if opens and above and label(path) not in openers:
                    faults.append(f"{label(path)}: imports storage.objects")
    assert faults == []


UNPLAIN_NAMES = {
    "asked", "found", "given", "got", "house", "kind", "kinds", "known", "made", "thing", "things",
    "told",
}  # fmt: skip
"""Names of locals, parameters and fields that say how a value came to be, not what it is.

`kind` says it of nothing: a bucket has a `type`, a pointer an `object_type`, a key a `role`.
"""

UNPLAIN_WORDS = re.compile(r"\b(nobody|whoever|everybody|anybody|somebody|hurts?)\b", re.IGNORECASE)
"""Words of docstrings and comments that hide who acts."""


BINDING = (
    ast.Name, ast.Attribute, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ExceptHandler,
    ast.MatchAs, ast.MatchStar,
)  # fmt: skip


def names_bound_in(path: Path) -> Iterator[tuple[str, int]]:
    """The names that a module binds, with their lines; names that it imports do not count.

    These are variables, parameters, fields, functions, captures of a pattern and caught errors.
    """
    for node in nodes_of(path):
        if not isinstance(node, BINDING):
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, node.lineno


@functools.cache
def modules_of_tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


def test_tests_name_what_our_modules_have() -> None:
    """`local_sql.put_file`: such a name is looked up when a test runs; mypy reads no test."""
    named = {dotted(path): path for path in [*modules(), *modules_of_tests()]}
    missing = [
        f"{label(path)}:{node.lineno}: {node.value.id}.{node.attr}"
        for path in modules_of_tests()
        if (imported := modules_imported_by(path, named))
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (module := imported.get(node.value.id)) is not None
        and node.attr not in names_of_the_module(named[module])
    ]
    assert missing == []


def modules_imported_by(path: Path, named: Mapping[str, Path]) -> dict[str, str]:
    """Our modules by the name that a module has for each, but for names it also binds itself."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in named
    }
    bound = {name for name, _ in names_bound_in(path)} if imported else set()
    return {name: module for name, module in imported.items() if name not in bound}


@functools.cache
def names_of_the_module(path: Path) -> frozenset[str]:
    """What a module binds or imports anywhere, and what each module has."""
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    classes = {node.name for node in nodes_of(path) if isinstance(node, ast.ClassDef)}
    bound = {name for name, _ in names_bound_in(path)}
    return frozenset(imported | classes | bound | {"__name__", "__file__", "__doc__", "__dict__"})


def prose_of(path: Path) -> str:
    """A module's comments, docstrings and the texts below its constants."""
    with path.open("rb") as file:
        comments = [
            token.string
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT
        ]
    texts = [
        node.value.value
        for node in nodes_of(path)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return "\n".join(comments + texts)


def test_local_names_say_what_they_hold() -> None:
    """`snapshot`, `bucket_row`, `arrow_type`: what a value is, not that it was found or made."""
    word = re.compile(rf"\b({'|'.join(UNPLAIN_NAMES)})\b")
    unplain = [
        f"{label(path)}:{line}: {name}"
        for path in [*modules(), *modules_of_tests()]
        if word.search(path.read_text())
        for name, line in names_bound_in(path)
        if name in UNPLAIN_NAMES
    ]
    assert unplain == []


def test_names_of_tests_name_the_actor() -> None:
    """A test's name is read alone, in a report: it says "the client" or "an anonymous request"."""
    unplain = re.compile(r"_(nobody|whoever|everybody|anybody|somebody|hurts?|told)(_|$)")
    named = [
        f"{label(path)}::{name}"
        for path in modules_of_tests()
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        if unplain.search(name)
    ]
    assert named == []


def test_a_public_class_name_means_one_thing() -> None:
    """No public class name is defined twice in the product, not even in other letter case.

    A module's name tells floors apart where both words are read; a reader of `Table(...)` in a
    traceback, a search or a `match` sees the class alone.
    """
    modules_by_name: dict[str, list[str]] = {}
    for path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_by_name.setdefault(node.name.casefold(), []).append(label(path))
    assert {name: paths for name, paths in modules_by_name.items() if len(paths) > 1} == {}


def test_a_closed_list_of_words_is_written_once() -> None:
    """`idents.PointerType`: who adds a word to a `Literal` that stands twice forgets the other.

    The pipeline is a program of its own, and shares no module with the server.
    """
    places: dict[tuple[bool, frozenset[str]], list[str]] = {}
    for path, node in nodes(ast.Subscript):
        match node:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=words)):
                words_of = frozenset(ast.unparse(word) for word in words)
                place = f"{label(path)}:{node.lineno}"
                places.setdefault((label(path).startswith("pipeline/"), words_of), []).append(place)
    assert [lines for lines in places.values() if len(lines) > 1] == []


def test_prose_names_the_actor() -> None:
    """Docstrings and comments name the actor: "the client", "the writer thread"."""
    unplain = {
        label(path): UNPLAIN_WORDS.findall(prose_of(path))
        for path in [*modules(), *modules_of_tests()]
        if UNPLAIN_WORDS.search(path.read_text()) and UNPLAIN_WORDS.search(prose_of(path))
    }
    assert unplain == {}


def test_every_package_lies_in_the_checkout() -> None:
    """Package names are common words; none may be shadowed by an installed one."""
    for package in PACKAGES:
        module = __import__(package)
        assert module.__file__ is not None
        assert Path(module.__file__).is_relative_to(ROOT)


def test_the_repository_speaks_of_the_project_alone() -> None:
    """No path of one machine, no index address, no file over 1 MB."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\0")
    machine = re.compile(rb"(^|[^A-Za-z0-9_.])/(root|farm|work/main|work/shared)/", re.MULTILINE)
    index = re.compile(rb"(files\.pythonhosted|repo1\.maven|registry\.npmjs)\.org")
    for name in filter(None, listed):
        path = ROOT / name.decode()
        if not path.is_file():
            continue
        content = path.read_bytes()
        assert len(content) <= 1_000_000, f"{name.decode()} is over 1 MB"
        if path == Path(__file__):
            continue
        assert not machine.search(content), f"{name.decode()} carries a path of a machine"
        assert not index.search(content), f"{name.decode()} carries an index address"


def test_every_type_ignore_has_a_code_and_a_reason() -> None:
    bare = re.compile(r"#\s*type:\s*ignore(?!\[[\w,\- ]+\]\s+[-#] ?\S)")
    for path in modules():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not bare.search(line), f"{label(path)}:{number}: {line.strip()}"
