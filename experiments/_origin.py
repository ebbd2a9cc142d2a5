"""Where a result comes from: the commit, and a digest of the code that the experiment uses.

A rebase gives commits new names, and a copy without git has none. So the commit is told to the reader, and the digest
decides whether a result is older than its code.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

ROOT = Path(__file__).parent.parent
# Names such as family="poisson" reach these through registries, without an import.
_ALWAYS = ("anypca.families", "anypca.priors", "anypca.solvers")
# The frame of the experiments has no part in their figures.
_FRAME = ("experiments._common", "experiments._origin")
_DIGITS = 8
_STATED = re.compile(rf"\(code ([0-9a-f]{{{_DIGITS}}})\)")


@dataclass(frozen=True)
class Origin:
    """What a result was computed with."""

    commit: str = ""
    """Name of the commit, with ``+`` when the code differed from it; empty without git."""
    code: str = ""
    """Digest of the code used; empty for an experiment that is not a module of this folder."""

    def as_text(self) -> str:
        """As `stated_code` finds it again."""
        return f"at {self.commit or 'an unknown commit'} (code {self.code or 'unknown'})"


def origin_of(experiment: str) -> Origin:
    """Origin of what the experiment of that name would compute now."""
    return Origin(commit_of(ROOT), code_of(experiment))


def commit_of(folder: Path) -> str:
    """Name of the commit of a folder, with ``+`` when its code differs from it; empty without git."""
    try:
        name = _git(folder, "describe", "--always", "--tags")
        # What an experiment writes itself is no change of the code.
        written = (":!experiments/RESULTS.md", ":!experiments/pictures")
        changes = _git(folder, "status", "--porcelain", "--", "src", "experiments", *written)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changes else "")


def code_of(experiment: str) -> str:
    """Digest of the modules that an experiment uses, without their comments and docstrings."""
    if importlib.util.find_spec(f"experiments.{experiment}") is None:
        return ""
    parts = [f"{module}\n{_code(_path(module))}" for module in sorted(modules_of(experiment))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def stated_code(section: str) -> str:
    """The digest that a section of the results states; empty if none."""
    found = _STATED.search(section)
    return found.group(1) if found else ""


def modules_of(experiment: str) -> set[str]:
    """Modules of the project that an experiment uses, by what they import from where it is defined."""
    found: set[str] = set()
    pending = [f"experiments.{experiment}", *_ALWAYS]
    while pending:
        module = pending.pop()
        if module not in found and module not in _FRAME:
            found.add(module)
            pending.extend(_imports(module))
    return found


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    """Modules of the project that hold what a module imports."""
    package = module if _path(module).name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(_tree(_path(module))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names += _definers(base, [alias.name for alias in node.names])
    return tuple(name for name in names if name.split(".")[0] in ("anypca", "experiments"))


def _definers(module: str, names: list[str]) -> Iterator[str]:
    """Modules that define what is imported from a module, which may only pass it on."""
    if module.split(".")[0] not in ("anypca", "experiments"):
        return
    held = importlib.import_module(module)
    for name in names:
        value = getattr(held, name, None)
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, type | FunctionType):
            yield value.__module__
        else:
            yield module


def _path(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _code(path: Path) -> str:
    """A file's code without what changes no result: comments and strings that stand alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(lines := getattr(node, field, None), list):
                setattr(node, field, [line for line in lines if not _stands_alone(line)] or [ast.Pass()])
    return ast.unparse(tree)


def _stands_alone(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
