"""Docstrings of public objects: ``python -m tools.docstrings`` (part of ``make lint``).

numpydoc looks at every class and function that the reference lists: parameters and returned values have a description,
and each says what else to see. Exits non-zero if one does not.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator

from numpydoc.validate import validate

#: Modules whose public names are in the reference.
MODULES = (
    *("", ".datasets", ".families", ".interpretation", ".io", ".offsets", ".plotting", ".priors", ".report"),
    *(".scverse", ".selection"),
)
#: What is asked for, by numpydoc's codes: descriptions of parameters and of what is returned, and See Also.
CODES = ("PR07", "RT03", "SA01")


def public_names() -> Iterator[str]:
    """Names of the public classes and functions."""
    for suffix in MODULES:
        module = importlib.import_module(f"anypca{suffix}")
        for name in module.__all__:
            if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name)):
                yield f"{module.__name__}.{name}"


def main() -> int:
    """Print what is missing; the number of findings."""
    findings = [
        f"{name}: {code} {message}"
        for name in public_names()
        for code, message in validate(name)["errors"]
        if code in CODES
    ]
    print("\n".join(findings))
    print(f"{len(set(public_names()))} public objects, {len(findings)} findings")
    return len(findings)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
