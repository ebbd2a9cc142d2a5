"""Write the small data sets that the wheel carries to ``src/anypca/datasets/data``.

    ANYPCA_DATA=FOLDER python -m tools.package_data penguins.csv

Every file has the arrays ``X``, ``feature_names`` and, if known, ``target``, ``target_names``, ``exposure`` and one
array ``covariate_NAME`` for each variable of the rows. Source and licence are in ``sets.toml`` and in the loaders.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "anypca" / "datasets" / "data"
CELLS_OF_A_TYPE, GENES = 60, 300


def write(name: str, **arrays: Any) -> None:
    """Write one data set and print its size."""
    path = TARGET / f"{name}.npz"
    np.savez_compressed(path, allow_pickle=False, **arrays)
    print(f"{path.name}: {path.stat().st_size} bytes")


def read_csv(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the header and the numbers of a gzipped csv file."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        header = stream.readline().strip().split(",")
        return header, np.loadtxt(stream, delimiter=",")


def write_species(name: str, stored: Any) -> None:
    """Write counts of species with offset and covariates."""
    arrays = {f"covariate_{k.removeprefix('cov_')}": stored[k] for k in stored.files if k.startswith("cov_")}
    if "offset" in stored.files:
        arrays["exposure"] = stored["offset"]
    write(name, X=stored["counts"], feature_names=stored["taxa"], **arrays)


def write_tables(folder: Path) -> None:
    """Write the sets that are whole tables."""
    for name in ("oaks", "trichoptera", "mollusk", "barents"):
        write_species(name, np.load(folder / f"{name}.npz"))
    header, counts = read_csv(folder / "bibliometrics_counts.csv.gz")
    write("bibliometrics_counts", X=counts.astype(np.int32), feature_names=header)
    header, values = read_csv(folder / "bibliometrics_standardized.csv.gz")
    write("bibliometrics_standardized", X=values, feature_names=header)
    header, grades = read_csv(folder / "breast_cancer_wisconsin_original.csv.gz")
    grades[grades == -1] = np.nan
    write(
        "breast_cancer_original",
        X=grades[:, :-1].astype(np.float32),
        feature_names=header[:-1],
        target=grades[:, -1].astype(np.int8),
        target_names=["benign", "malignant"],
    )
    messages = np.load(folder / "sms_lexicon_standin.npz")
    write(
        "sms_lexicon",
        X=messages["counts"],
        feature_names=messages["terms"],
        target=messages["is_spam"],
        target_names=["ham", "spam"],
    )
    props = np.load(folder / "pitprops.npz")
    published = {f"reference_{k}": props[k] for k in props.files if k.startswith("spca_")}
    write("pitprops", X=props["R"], feature_names=props["variables"], **published)


def deviance_of_genes(counts: sparse.csr_array) -> np.ndarray:
    """Return the binomial deviance of each gene from a constant share of all counts."""
    totals = counts.sum(axis=1)
    share = counts.sum(axis=0) / totals.sum()
    entries = counts.tocoo()
    expected = totals[entries.row] * share[entries.col]
    rest = totals[entries.row] - entries.data
    present = entries.data * np.log(entries.data / expected)
    absent = rest * np.log(rest / (totals[entries.row] - expected))
    gained = np.bincount(entries.col, present + absent, minlength=counts.shape[1])
    # An entry of zero contributes total * log(1 / (1 - share)).
    seen = np.bincount(entries.col, totals[entries.row], minlength=counts.shape[1])
    return 2 * (gained - (totals.sum() - seen) * np.log1p(-share))


def write_blood_cells(folder: Path) -> None:
    """Write 60 cells of each of ten types and the 300 genes with the largest deviance."""
    counts = sparse.csr_array(sparse.load_npz(folder / "pbmc_facs_counts.npz"), dtype=float)
    meta = np.load(folder / "pbmc_facs_meta.npz")
    kinds, codes = np.unique(meta["celltype"], return_inverse=True)
    rng = np.random.default_rng(0)
    rows = np.sort(
        np.concatenate(
            [
                rng.choice(np.flatnonzero(codes == k), CELLS_OF_A_TYPE, replace=False)
                for k in range(kinds.size)
            ]
        )
    )
    genes = np.sort(np.argsort(-deviance_of_genes(counts), kind="stable")[:GENES])
    X = counts[rows][:, genes].toarray()
    assert X.max() < 256
    write(
        "blood_cells",
        X=X.astype(np.uint8),
        feature_names=meta["gene_symbol"][genes],
        target=codes[rows].astype(np.int8),
        target_names=kinds,
        covariate_subpop=meta["subpop"][rows],
        covariate_total_counts=counts.sum(axis=1)[rows].astype(np.int32),
    )


def write_penguins(source: Path) -> None:
    """Write the penguins as text: island and sex are labels, an empty cell is missing."""
    with source.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    cells = [["" if cell == "NA" else cell for cell in row] for row in rows]
    write("penguins", X=np.array(cells), feature_names=header)


def main() -> None:
    """Write all files."""
    folder = Path(os.environ["ANYPCA_DATA"])
    TARGET.mkdir(exist_ok=True)
    write_tables(folder)
    write_blood_cells(folder)
    write_penguins(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
