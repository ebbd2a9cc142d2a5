"""Damaged files of every format are read or refused with one line; no traceback, no signal, no hang."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from contextlib import suppress
from functools import partial
from subprocess import PIPE, Popen
from threading import Timer

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse
from tests.draws import generator

from anypca.io import read_table

#: Damaged copies of each format.
N_COPIES = 48
#: Seconds in which a small file is read or refused, on a slow machine too.
PATIENCE = 30
VALUES = np.round(generator("values").normal(size=(12, 4)), 3)
SPARSE = sparse.random_array((12, 5), density=0.4, random_state=generator("sparse"), format="csr")
TABLE = pd.DataFrame(VALUES, columns=list("abcd")).assign(kind=["u", "v", "w"] * 4, n=range(12))


def write_h5ad(path, values):
    anndata.AnnData(values, obs=pd.DataFrame({"t": np.arange(12.0)}, index=list("abcdefghijkl"))).write_h5ad(
        path
    )


WRITERS = {
    "csv": lambda path: TABLE.to_csv(path, index=False),
    "tsv": lambda path: TABLE.to_csv(path, sep="\t", index=False, quoting=1),
    "txt": lambda path: TABLE.to_csv(path, sep=" ", index=False),
    "csv.gz": lambda path: TABLE.to_csv(path, index=False),
    "xlsx": lambda path: TABLE.to_excel(path, index=False),
    "parquet": lambda path: TABLE.to_parquet(path),
    "npz": lambda path: np.savez(path, X=VALUES, names=np.array(list("abcd"))),
    "sparse.npz": lambda path: sparse.save_npz(path, SPARSE),
    "npy": lambda path: np.save(path, VALUES),
    "mtx": lambda path: scipy_io.mmwrite(path, SPARSE),
    "dense.mtx": lambda path: scipy_io.mmwrite(path, VALUES),
    "mtx.gz": lambda path: path.write_bytes(gzip.compress(_market(), mtime=0)),
    "h5ad": lambda path: write_h5ad(path, VALUES),
    "sparse.h5ad": lambda path: write_h5ad(path, sparse.csr_matrix(SPARSE)),
}


def _market():
    return b"%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 1.5\n2 3 2.5\n3 2 -1\n"


def flip(content, rng):
    places = rng.integers(len(content), size=rng.integers(1, 16))
    for place in places:
        content[place] = rng.integers(256)
    return content


def cut(content, rng):
    return content[: rng.integers(len(content))]


def remove(content, rng):
    start = int(rng.integers(len(content)))
    return content[:start] + content[start + int(rng.integers(1, 60)) :]


def insert(content, rng):
    start = int(rng.integers(len(content)))
    return content[:start] + rng.bytes(int(rng.integers(1, 60))) + content[start:]


def enlarge(content, rng):
    """Large digits and bytes, which make sizes large."""
    start = int(rng.integers(len(content)))
    for place in range(start, min(start + 8, len(content))):
        content[place] = ord("9") if chr(content[place]).isdigit() else 255
    return content


def double(content, rng):
    start = int(rng.integers(len(content)))
    return content + content[start:]


DAMAGES = (flip, cut, remove, insert, enlarge, double)


def outcome(path):
    """What became of a file: nothing if it was read, else the complaint."""
    try:
        read_table(path)
    except (ValueError, OSError) as error:
        return str(error)
    return None


#: What is read by compiled code is read by a child: if it dies, the test fails and not the run.
CHILD = """
import json, sys
from anypca.io import read_table
for line in sys.stdin:
    try:
        read_table(json.loads(line))
        print(json.dumps(None), flush=True)
    except (ValueError, OSError) as error:
        print(json.dumps(str(error)), flush=True)
"""


@pytest.fixture(scope="module")
def child():
    with Popen([sys.executable, "-c", CHILD], stdin=PIPE, stdout=PIPE, text=True) as process:
        yield partial(ask, process)
        with suppress(BrokenPipeError):
            process.stdin.close()


def ask(process, paths):
    """The outcomes in the child, which is ended if it hangs."""
    timer = Timer(PATIENCE, process.kill)
    timer.start()
    answers = []
    for path in paths:
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the reader died or hung at {path}, with code {process.wait()}"
        answers.append(json.loads(line))
    timer.cancel()
    return answers


@pytest.mark.parametrize("ending", WRITERS)
def test_damaged_files(tmp_path, ending, request):
    whole = tmp_path / f"whole.{ending}"
    WRITERS[ending](whole)
    rng = generator("damage", ending)
    paths = [tmp_path / f"t{number}.{ending}" for number in range(N_COPIES)]
    for number, path in enumerate(paths):
        damage = DAMAGES[number % len(DAMAGES)]
        path.write_bytes(bytes(damage(bytearray(whole.read_bytes()), rng)))
    is_native = "mtx" in ending or "h5ad" in ending
    read_all = request.getfixturevalue("child") if is_native else lambda paths: [*map(outcome, paths)]
    complaints = read_all([whole, *paths])
    assert complaints[0] is None
    for path, complaint in zip(paths, complaints[1:], strict=True):
        assert complaint is None or (str(path) in complaint and "\n" not in complaint), complaint
    refused = [path for path, complaint in zip(paths, complaints[1:], strict=True) if complaint is not None]
    assert refused


def damage_content(path, rng):
    """A packed file with a damaged part, packed again: its checksums are right."""
    if path.suffix == ".gz":
        damage = DAMAGES[rng.integers(len(DAMAGES))]
        return gzip.compress(bytes(damage(bytearray(gzip.decompress(path.read_bytes())), rng)), mtime=0)
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(packed, "w") as damaged:
        names = whole.namelist()
        victim = names[rng.integers(len(names))]
        for name in names:
            content = bytearray(whole.read(name))
            damage = DAMAGES[rng.integers(len(DAMAGES))]
            damaged.writestr(name, bytes(damage(content, rng) if name == victim and content else content))
    return packed.getvalue()


@pytest.mark.parametrize("ending", ["csv.gz", "xlsx", "npz", "sparse.npz", "mtx.gz"])
def test_damaged_parts_of_packed_files(tmp_path, ending, child):
    whole = tmp_path / f"whole.{ending}"
    WRITERS[ending](whole)
    rng = generator("parts", ending)
    paths = [tmp_path / f"t{number}.{ending}" for number in range(N_COPIES)]
    for path in paths:
        path.write_bytes(damage_content(whole, rng))
    for path, complaint in zip(paths, child(paths), strict=True):
        assert complaint is None or (str(path) in complaint and "\n" not in complaint), complaint
