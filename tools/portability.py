"""The numerical tests as other processors run them.

OpenBLAS has a kernel for each generation of processors and takes the one that an environment variable names; numpy
has loops for several instruction sets and leaves out those that another variable names. Each sums and rounds in an
order of its own. This program runs the numerical tests under every kernel that this processor can run and with
numpy's loops for newer processors switched off, each with one and with two threads. It prints a line for each
setting and ends with an error if a test fails, or if a setting was not taken.

Run with ``python -m tools.portability``, optionally with the files or folders of tests to run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from numpy._core import _multiarray_umath as umath

TESTS = tuple(
    f"tests/{name}"
    for name in (
        "families",
        "engine",
        "priors",
        "solvers",
        "models",
        "selection",
        "mathematics",
        "conformance",
    )
)

# OpenBLAS kernels from old to new and what each needs, in numpy's names.
KERNELS = {
    "Prescott": ("SSE3",),
    "Nehalem": ("SSE42",),
    "Sandybridge": ("AVX",),
    "Haswell": ("AVX2", "FMA3"),
    "SkylakeX": ("AVX512F",),
}
# Builds without the kernels of older processors call the oldest that is left by the first of their names.
ALIASES = {"Katmai": "Prescott"}

PROBE = """
import json, numpy, scipy.linalg, threadpoolctl
from numpy._core import _multiarray_umath as umath
kernels = {pool.get("architecture") for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "openblas"}
print(json.dumps([sorted(kernels), [name for name, on in umath.__cpu_features__.items() if on]]))
"""


@dataclass(frozen=True)
class Setting:
    """A kernel of OpenBLAS, or the usual one, and what numpy is to do without."""

    kernel: str | None = None
    without: Sequence[str] = ()
    threads: int = 1

    def __str__(self) -> str:
        loops = f", numpy without {' '.join(self.without)}" if self.without else ""
        return f"kernel {self.kernel or 'as usual'}{loops}, {self.threads} thread{'s'[: self.threads - 1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process with those of the setting."""
        names = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(self.threads))
        kernel = {names[0]: self.kernel} if self.kernel else {}
        loops = {names[1]: " ".join(self.without)} if self.without else {}
        return {**kept, **threads, **kernel, **loops}


@dataclass(frozen=True)
class Outcome:
    """How the tests ended under a setting."""

    counts: Mapping[str, int] = field(default_factory=dict)
    complaints: Sequence[str] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = [f"{self.counts.get(word, 0)} {word}" for word in ("passed", "failed", "skipped")]
        return "\n    ".join([f"{', '.join(counts)} in {self.seconds:.0f} s", *self.complaints])


def probe(environment: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Kernels and features that a process in the environment has."""
    process = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, check=True, capture_output=True, text=True
    )
    kernels, features = json.loads(process.stdout)
    return {ALIASES.get(kernel, kernel) for kernel in kernels}, set(features)


def supported_kernels(usual: set[str], features: set[str]) -> Iterator[str]:
    """Kernels that this processor can run; prints the others."""
    for kernel, needed in KERNELS.items():
        missing = [name for name in needed if name not in features]
        if platform.machine().lower() not in {"x86_64", "amd64"}:
            print(f"skip kernel {kernel}: it is for x86, this processor is {platform.machine()}")
        elif not usual:
            print(f"skip kernel {kernel}: numpy is not built on OpenBLAS")
        elif missing:
            print(f"skip kernel {kernel}: this processor lacks {' '.join(missing)}")
        else:
            yield kernel


def dispatched(features: set[str]) -> list[str]:
    """Instruction sets for which numpy has loops of its own and which this processor has."""
    return [name for name in umath.__cpu_dispatch__ if name in features]


def beyond_avx2(names: Sequence[str]) -> list[str]:
    """Those of the instruction sets that are AVX-512: most processors have none."""
    return [name for name in names if name.startswith(("AVX512", "X86_V4"))]


def all_settings(kernels: Sequence[str], loops: Sequence[str]) -> list[Setting]:
    """Each kernel; the loops off; and a processor without AVX-512, which is both."""
    settings = [Setting(kernel) for kernel in kernels]
    if loops:
        settings.append(Setting(without=loops))
    if "Haswell" in kernels and beyond_avx2(loops):
        settings.append(Setting("Haswell", beyond_avx2(loops)))
    return [Setting(setting.kernel, setting.without, threads) for setting in settings for threads in (1, 2)]


def complaints_about(setting: Setting) -> list[str]:
    """What of a setting a process does not take."""
    kernels, features = probe(setting.environment)
    kept = features.intersection(setting.without)
    complaints = [f"numpy still uses {' '.join(sorted(kept))}"] if kept else []
    if setting.kernel and kernels != {setting.kernel}:
        complaints.append(f"OpenBLAS took {' '.join(sorted(kernels))}")
    return complaints


def run(setting: Setting, tests: Sequence[str]) -> Outcome:
    """Run tests under a setting that is known to be taken."""
    complaints = complaints_about(setting)
    if complaints:
        return Outcome(complaints=complaints)
    # A process for each core even with two threads: most of a test is no BLAS.
    workers = os.cpu_count() or 1
    options = [
        "-q",
        "--no-header",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-n",
        str(workers),
        "--dist",
        "worksteal",
    ]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    start = time.perf_counter()
    process = subprocess.run(command, env=setting.environment, capture_output=True, text=True, check=False)
    found = summary_of(process.stdout.splitlines(), process.returncode)
    return replace(found, seconds=time.perf_counter() - start)


def summary_of(lines: Sequence[str], code: int) -> Outcome:
    """Counts from pytest's last line, and the tests that failed."""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", lines[-1] if lines else "")}
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))]
    return Outcome(counts, failed or [f"pytest ended with {code}", *lines[-5:]] if code else ())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests under all settings; 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", default=[path for path in TESTS if Path(path).exists()])
    tests = parser.parse_args(arguments).tests
    usual, features = probe(Setting().environment)
    settings = all_settings(list(supported_kernels(usual, features)), dispatched(features))
    if not settings:
        print("skip: neither BLAS nor numpy can be told to compute as another processor does")
    is_red = False
    for setting in settings:
        outcome = run(setting, tests)
        print(f"{setting}: {outcome}", flush=True)
        is_red |= bool(outcome.complaints)
    return int(is_red)


if __name__ == "__main__":
    sys.exit(main())
