"""The layers of the package: imports point down, those by name in a string included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import anypca

ROOT = Path(anypca.__file__).parent

# From the ground up; a module may import from the lines above its own. Modules of one line are independent of each
# other, except in the first one.
LAYERS = [
    ("_typing", "_compat", "_registry", "_words", "_optional", "_lazy", "_arviz", "exceptions"),
    ("linalg", "special"),
    ("engine", "families"),
    ("columns",),
    ("offsets", "priors"),
    ("solvers",),
    ("models",),
    ("selection", "interpretation", "imputation"),
    ("plotting", "datasets"),
    ("io", "scverse"),
    ("report",),
    ("cli",),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# The package itself and ``python -m anypca`` gather what the layers offer.
TOP = {"__init__", "__main__"}
# Thin methods of estimators and results that call functions of the upper layers, at call time.
METHODS = {("models", "report"), ("models", "selection"), ("selection", "plotting")}


def modules(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Yield the modules that a file imports, also inside functions and by ``import_module``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # ``from anypca import linalg`` imports a module of the package.
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "__import__") and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def violations(unit: str, targets: set[str]) -> set[tuple[str, str]]:
    """Return imports from a layer above, from a neighbour in the same layer, or from the package as a whole."""
    if unit in TOP:
        return set()
    inside = (targets & (LEVEL.keys() | TOP)) - {unit}
    limit = max(LEVEL[unit] - 1, 0)
    return {(unit, name) for name in inside if name in TOP or LEVEL[name] > limit}


def layers_of(path: Path) -> tuple[str, set[str]]:
    """Return the layer of a file and the layers that it imports."""
    package = ["anypca", *path.relative_to(ROOT).parts[:-1]]
    found = [name.split(".") for name in modules(ast.parse(path.read_text(encoding="utf-8")), package)]
    targets = {parts[1] for parts in found if parts[0] == "anypca" and len(parts) > 1}
    return path.relative_to(ROOT).with_suffix("").parts[0], targets


def test_imports_point_down() -> None:
    found = [layers_of(path) for path in sorted(ROOT.rglob("*.py"))]
    units = {unit for unit, _ in found}
    assert units <= LEVEL.keys() | TOP, "add the new module to LAYERS, and to the design"
    wrong = set().union(*(violations(unit, targets) for unit, targets in found))
    assert wrong <= METHODS
    source = "from ..models import y\nfrom anypca import cli\nimport_module('anypca.report')"
    names = {name.split(".")[1] for name in modules(ast.parse(source), ["anypca", "engine"])}
    assert violations("engine", names) == {("engine", "models"), ("engine", "cli"), ("engine", "report")}
