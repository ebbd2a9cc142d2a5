"""Break the code on purpose and see that the tests notice: ``python -m tools.mutation [--workers N] [words]``.

Each mutation of `tools.mutation.catalogue` is applied to a copy of the sources, and the tests named with it are run
against that copy. A mutation that no test notices survives: the tests have a hole there. Exits non-zero if one does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tools.mutation.catalogue import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
# Processor seconds that no single set of tests needs: a mutant that makes the code go round for ever is noticed by
# this, however busy the machine is. One that waits for ever is noticed by the clock.
_PROCESSOR_LIMIT = 300
_CLOCK_LIMIT = 3600.0
_WORKERS = max(1, min(os.cpu_count() or 1, 4))


@contextmanager
def mutated(mutation: Mutation) -> Iterator[Path]:
    """A folder with the sources in which one place is changed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        # With the compiled files, which stay valid since copies keep their dates: compiling takes seconds.
        shutil.copytree(ROOT / "src", source)
        file = source / "anypca" / mutation.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            raise ValueError(
                f"{mutation.file} has {text.count(mutation.old)} places {mutation.old!r}; one is needed."
            )
        file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        yield source


def is_noticed(mutation: Mutation) -> bool:
    """Whether some test of the mutation fails on the changed sources."""
    with mutated(mutation) as source:
        environment = os.environ | {"PYTHONPATH": str(source)}
        command = [
            *("sh", "-c", f'ulimit -t {_PROCESSOR_LIMIT}; exec "$@"', "sh"),
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *mutation.tests.split(),
        ]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=_CLOCK_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return True
    # 1: tests failed; negative: stopped by the limit. Anything else but 0 (usage, nothing collected) is a fault of the
    # catalogue.
    if ended.returncode > 2:
        raise RuntimeError(f"{mutation.name}: pytest ended with {ended.returncode}.\n{ended.stdout.decode()}")
    return ended.returncode != 0


def main(arguments: list[str]) -> int:
    """Run the mutations whose names or files contain one of the words, or all; the number of survivors."""
    parser = argparse.ArgumentParser(prog="tools.mutation")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--workers", type=int, default=_WORKERS, help="mutations that are tried at once")
    given = parser.parse_args(arguments)
    words = given.words
    chosen = [m for m in MUTATIONS if not words or any(word in m.name or word in m.file for word in words)]
    with ThreadPoolExecutor(given.workers) as pool:
        survivors = []
        for mutation, noticed in zip(chosen, pool.map(is_noticed, chosen), strict=True):
            print(f"{'noticed' if noticed else 'SURVIVED'}: {mutation.file}: {mutation.name}", flush=True)
            survivors += [] if noticed else [mutation]
    print(f"{len(chosen)} mutations, {len(survivors)} survivors")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
