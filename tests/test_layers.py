"""The layers of the package: imports point down, and what belongs to one layer stays there."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anypca

ROOT = Path(anypca.__file__).parent

# From the ground up; a module may import from its own line and from those above it here.
LAYERS = [
    ("_typing", "_compat", "_registry", "_words", "_optional", "_lazy", "_arviz", "exceptions"),
    ("special",),
    ("linalg",),
    ("families",),
    ("engine",),
    ("offsets",),
    ("priors",),
    ("solvers",),
    ("models",),
    ("datasets", "selection", "plotting", "interpretation", "io", "report", "scverse", "cli"),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# The package itself and ``python -m anypca`` gather what the layers offer.
TOP = {"__init__", "__main__"}

# Ways to find out what a model is without asking it.
GUESS = re.compile(
    r"(?:getattr|hasattr)\((?:\w+\.)*(?:model|estimator)\b"
    r"|signature\((?:\w+\.)*(?:model|estimator)\."
    r"|in type\((?:\w+\.)*(?:model|estimator)\)\.__name__"
)

FILES = sorted(ROOT.rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def offences(rule: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """What a rule finds, by file."""
    found = {str(path.relative_to(ROOT)): sorted(rule(path)) for path in FILES}
    return {name: names for name, names in found.items() if names}


def unit_of(path: Path) -> str:
    """Name of the layer's module or folder that holds a file."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports_of(tree: ast.AST, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules that a file imports, absolute, with the names taken from them; in functions as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module, tuple(alias.name for alias in node.names)


def imports(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    package = ".".join(["anypca", *path.relative_to(ROOT).parts[:-1]])
    return list(imports_of(tree_of(path), package))


def own_targets(path: Path) -> set[str]:
    """Layer modules of the package that a file imports."""
    targets = set()
    for module, names in imports(path):
        head, _, rest = module.partition(".")
        if head == "anypca":
            targets |= {rest.split(".")[0]} if rest else set(names)
    return targets & (set(LEVEL) | TOP)


def layer_violations(unit: str, targets: set[str]) -> set[str]:
    if unit in TOP:
        return set()
    return {target for target in targets if target in TOP or LEVEL[target] > LEVEL[unit]}


def takes_from_another_model(own: str, module: str, names: tuple[str, ...]) -> bool:
    """Whether an import in the model's folder ``own`` takes something private from another model's folder.

    Folders and files of models/ that start with an underscore are shared; a model's class is public.
    """
    parts = module.split(".")
    if parts[:2] != ["anypca", "models"] or len(parts) < 3 or parts[2].startswith("_") or parts[2] == own:
        return False
    return any(part.startswith("_") for part in (*parts[3:], *names))


def private_sklearn(module: str, names: tuple[str, ...]) -> bool:
    parts = [*module.split("."), *names]
    return parts[0] == "sklearn" and any(part.startswith("_") for part in parts)


def is_below_models(unit: str) -> bool:
    return unit not in TOP and LEVEL[unit] < LEVEL["models"]


def mentions(path: Path, word: str) -> bool:
    names = (
        getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        for node in ast.walk(tree_of(path))
    )
    return word in names


def test_every_file_belongs_to_a_layer():
    units = {unit_of(path) for path in FILES}
    assert units <= set(LEVEL) | TOP, "add the new module to LAYERS, and to the design"


def test_imports_point_down():
    assert not offences(lambda path: layer_violations(unit_of(path), own_targets(path)))


def test_models_share_only_what_is_shared():
    """What two models need lies in models/_*.py or models/_*/, not in the folder of one of them."""

    def rule(path):
        if path.parent.parent != ROOT / "models":
            return ()
        own = path.parent.name
        return (module for module, names in imports(path) if takes_from_another_model(own, module, names))

    assert not offences(rule)


def test_dask_is_imported_by_its_module_only():
    allowed = {Path("engine/dask.py"), Path("cli/_cluster.py")}

    def rule(path):
        heads = {module.partition(".")[0] for module, _ in imports(path)}
        return set() if path.relative_to(ROOT) in allowed else heads & {"dask", "distributed"}

    assert not offences(rule)


def test_the_dask_module_is_imported_when_needed():
    """Inside functions only, so that the package works without dask."""

    def rule(path):
        nodes = [node for node in tree_of(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {module for module, _ in imports_of(ast.Module(nodes, []), "anypca")}
        return modules & {"anypca.engine.dask"}

    assert not offences(rule)


def test_sparseness_is_asked_in_the_engine_only():
    def rule(path):
        unit = unit_of(path)
        is_above = unit in TOP or LEVEL[unit] > LEVEL["engine"]
        return (
            ["issparse"] if is_above and unit not in ("io", "datasets") and mentions(path, "issparse") else []
        )

    assert not offences(rule)


def test_models_are_asked_and_not_guessed():
    """What a model has is in its description; only `anypca.models._description` looks for attributes."""

    def rule(path):
        is_above = LEVEL.get(unit_of(path), 0) > LEVEL["models"]
        return GUESS.findall(path.read_text(encoding="utf-8")) if is_above else []

    assert not offences(rule)


def test_private_sklearn_is_imported_by_compat_only():
    def rule(path):
        private = {module for module, names in imports(path) if private_sklearn(module, names)}
        return set() if unit_of(path) == "_compat" else private

    assert not offences(rule)


def test_sklearn_stays_with_the_models():
    allowed = {Path("exceptions.py"), Path("_compat.py"), Path("engine/data.py")}

    def rule(path):
        if not is_below_models(unit_of(path)) or path.relative_to(ROOT) in allowed:
            return set()
        return {module.partition(".")[0] for module, _ in imports(path)} & {"sklearn"}

    assert not offences(rule)


def body_lengths(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines of the bodies of functions, without their docstrings, and the functions' names."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            found.append((length, node.name))
    return found


def test_functions_and_files_are_short():
    lengths = [length for path in FILES for length, _ in body_lengths(tree_of(path))]
    assert sorted(lengths)[int(0.95 * len(lengths))] <= 20
    long = offences(lambda path: (name for length, name in body_lengths(tree_of(path)) if length > 40))
    assert not long
    assert not [path for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > 400]


def test_the_checks_see_violations():
    lines = ['"""Text."""', "a = 1", "return a"]
    function = ast.parse("\n    ".join(["def f():", *lines]))
    assert body_lengths(function) == [(2, "f")]
    assert list(offences(lambda path: {"x"} if path.name == "linalg.py" else ())) == ["linalg.py"]
    lines = [
        "from anypca.models import x",
        "from ..solvers import y",
        "import sklearn.utils._z",
        "from anypca import cli",
    ]
    found = list(imports_of(ast.parse("\n".join(lines)), "anypca.engine"))
    assert found == [
        ("anypca.models", ("x",)),
        ("anypca.solvers", ("y",)),
        ("sklearn.utils._z", ()),
        ("anypca", ("cli",)),
    ]
    assert layer_violations("engine", {"models", "families", "engine"}) == {"models"}
    assert GUESS.findall('getattr(subject.model, "components_", None)')
    assert GUESS.findall("inspect.signature(estimator.fit)")
    assert GUESS.findall('"PLN" in type(model).__name__')
    assert not GUESS.findall('f"{type(model).__name__} of {source}"')
    assert private_sklearn("sklearn.utils", ("_z",))
    assert not private_sklearn("sklearn.utils", ("z",))
    assert takes_from_another_model("epca", "anypca.models.ppca._estimator", ("PPCA",))
    assert takes_from_another_model("epca", "anypca.models.ppca", ("_estimator",))
    assert not takes_from_another_model("epca", "anypca.models.ppca", ("PPCA",))
    assert not takes_from_another_model("epca", "anypca.models._gaussian.principal", ("Principal",))
    assert not takes_from_another_model("ppca", "anypca.models.ppca._estimator", ("PPCA",))
