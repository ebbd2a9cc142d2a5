"""Simple Poisson PCA on texts: figure 3 and table 5 on stand-ins, and four newsgroups at full size.

Smallman, Underwood and Artemiou (2020), section 5.4, reduce 100 letters of 55 counts, of two kinds; the letters are
private. In their place: 100 short messages, half of them spam, in 55 counts of a lexicon; and the posts of sci.med and
alt.atheism in the counts of their 300 most frequent words. Then all 3730 posts of four groups in 10254 words, a sparse
table, fitted in a process of its own whose memory is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.metrics import silhouette_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from anypca import GPCA, SPPCA, SSPPCA, SePCA
from anypca.datasets import load_newsgroups4, load_sms_lexicon
from anypca.offsets import total_counts
from experiments._cells import Cells
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._sppca import SGPCA_ALPHA, SPARSITY, draw_scores, silhouette
from experiments.kpca_scaling import peak_megabytes

ROOT = Path(__file__).parent.parent
PAPER = {"SPPCA": 0.38, "SSPPCA": 0.34, "GPCA": 0.23, "SGPCA": 0.17, "PCA": 0.21}
PAPER_COMPONENTS = {"SPPCA": 2, "SSPPCA": 3, "GPCA": 3, "SGPCA": 3, "PCA": 3}
#: The paper's threshold on alpha for its letters.
THRESHOLD = 40.0
N_COMPONENTS = 3
#: Two of the four groups, and how many of their words.
PAIR = ("alt.atheism", "sci.med")
N_WORDS = 300
PAIR_COMPONENTS = 10
MAX_COMPONENTS = 10
#: Of our fits to posts: the step is measured per entry, of which there are half a million and 38 million.
TOLERANCE = 1e-3
MOST_MEGABYTES = 600.0
N_NEIGHBOURS, N_FOLDS = 10, 5


class Texts(NamedTuple):
    """Counts of words and the kinds of texts."""

    X: Any
    """(n_texts, n_words), dense."""
    labels: np.ndarray
    names: tuple[str, ...]

    @property
    def named(self) -> list[str]:
        return [self.names[label] for label in self.labels]


class Row(NamedTuple):
    """What a method made of texts."""

    model: Any
    scores: np.ndarray
    clusters: float
    """Average silhouette of the clusters found in the scores."""
    kinds: float
    """Average silhouette of the kinds of texts."""

    @property
    def n_nonzero(self) -> int:
        return int(np.count_nonzero(self.model.components_))


def messages() -> Texts:
    """The short messages."""
    table = load_sms_lexicon()
    return Texts(np.asarray(table.X, dtype=float), np.asarray(table.target), tuple(table.target_names))


def posts_of_pair(n_posts: int | None, seed: int) -> Texts:
    """Posts of two groups (some of them, if a number is given) in their most frequent words, stop words left out."""
    posts = load_newsgroups4()
    groups = [posts.target_names.index(name) for name in PAIR]
    rows = np.flatnonzero(np.isin(posts.target, groups))
    if n_posts is not None:
        rows = np.sort(np.random.default_rng(seed).choice(rows, n_posts, replace=False))
    X = posts.X[rows]
    frequency = np.asarray((X > 0).sum(axis=0)).ravel()
    frequency[[j for j, word in enumerate(posts.feature_names) if word in ENGLISH_STOP_WORDS]] = 0
    words = np.sort(np.argsort(-frequency, kind="stable")[:N_WORDS])
    X = X[:, words].toarray().astype(float)
    used = X.sum(axis=1) > 0
    labels = np.array([groups.index(group) for group in posts.target[rows][used]])
    return Texts(X[used], labels, PAIR)


def _published(max_components: int, threshold: float, sparsity: float = 0.0) -> SePCA:
    """The published algorithm with another threshold and start than `SPPCA` has."""
    return SePCA(
        max_components,
        family="poisson",
        inference="map",
        nu=1.0,
        threshold=threshold,
        sparsity=sparsity,
        fit_intercept=False,
        n_jobs=1,
    )


def compare(
    texts: Texts, published: Mapping[str, Any], ours: Mapping[str, Any], *, with_lengths: bool
) -> dict[str, Row]:
    """All methods on one table; ours with the lengths of the texts as offset, if asked for."""
    methods = {
        **published,
        "GPCA": GPCA(N_COMPONENTS, family="poisson", n_jobs=1),
        "SGPCA": GPCA(N_COMPONENTS, family="poisson", penalty="scad", alpha=SGPCA_ALPHA, n_jobs=1),
        "PCA": PCA(N_COMPONENTS),
        **ours,
    }
    found = {}
    for name, method in methods.items():
        companions = {"offset": total_counts(texts.X)} if name in ours and with_lengths else {}
        model = fit_quietly(method, texts.X, **companions)
        scores = model.transform(texts.X, **companions)
        kinds = float(silhouette_score(scores, texts.labels)) if scores.shape[1] else float("nan")
        found[name] = Row(model, scores, silhouette(scores, len(texts.names)), kinds)
    return found


def _of_messages(options: Options) -> tuple[Texts, dict[str, Row]]:
    texts = messages()
    largest = texts.X.shape[1] - 1
    published = {
        "SPPCA": _published(largest, THRESHOLD),
        "SSPPCA": _published(largest, THRESHOLD, SPARSITY),
    }
    ours = {"SPPCA, default": SPPCA(PAIR_COMPONENTS, n_jobs=1)}
    if not options.quick:
        ours["SSPPCA, default"] = SSPPCA(PAIR_COMPONENTS, n_jobs=1)
    # How many words of the lexicon a message has is what tells spam: no offset.
    return texts, compare(texts, published, ours, with_lengths=False)


def _of_posts(options: Options) -> tuple[Texts, dict[str, Row]]:
    texts = posts_of_pair(None, options.seed)
    published = {
        "SPPCA": _published(PAIR_COMPONENTS, 100.0),
        "SSPPCA": _published(PAIR_COMPONENTS, 100.0, SPARSITY),
    }
    ours = {
        "SPPCA, default": SPPCA(PAIR_COMPONENTS, tol=TOLERANCE, n_jobs=1),
        "SSPPCA, price 2": SSPPCA(PAIR_COMPONENTS, sparsity=2.0, tol=TOLERANCE, n_jobs=1),
    }
    return texts, compare(texts, published, ours, with_lengths=True)


def fit_all_posts(n_posts: int | None, n_words: int | None, max_components: int) -> None:
    """Fit the four groups, print figures as JSON and compare neighbours; runs in a process of its own."""
    posts = load_newsgroups4()
    X, labels = posts.X.astype(np.float32), np.asarray(posts.target)
    if n_posts is not None:
        rows = np.sort(np.random.default_rng(0).choice(len(labels), n_posts, replace=False))
        X, labels = X[rows], labels[rows]
    if n_words is not None:
        X = X[:, np.sort(np.argsort(-np.asarray((X > 0).sum(axis=0)).ravel(), kind="stable")[:n_words])]
    offset = total_counts(X)
    before = peak_megabytes()
    start = time.perf_counter()
    model = fit_quietly(
        SPPCA(max_components, dispersion="poisson", tol=TOLERANCE, n_jobs=1), X, offset=offset
    )
    seconds, peak = time.perf_counter() - start, peak_megabytes()
    k = model.n_components_
    scores = {
        "SPPCA": model.transform(X, offset=offset),
        "TruncatedSVD": TruncatedSVD(k, random_state=0).fit_transform(X),
        # Of the sparse table, whose means are subtracted within the products.
        "PCA": PCA(k, svd_solver="arpack", random_state=0).fit_transform(X.astype(float)),
    }
    found = {
        "shape": X.shape,
        "components": k,
        "most": max_components,
        "converged": bool(model.converged_),
        "seconds": seconds,
        "megabytes": peak,
        "megabytes before": before,
        "evidence": {str(rank): value for rank, value in model.evidence_by_rank_.items()},
        "accuracy": {name: _accuracy(values, labels) for name, values in scores.items()},
    }
    print(json.dumps(found))


def _accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    classifier = KNeighborsClassifier(N_NEIGHBOURS)
    return float(cross_val_score(classifier, scores, labels, cv=N_FOLDS).mean())


def measure_apart(n_posts: int | None, n_words: int | None, max_components: int, seed: int) -> dict[str, Any]:
    """What `fit_all_posts`, which has nothing random, prints in a process of its own."""
    arguments = n_posts, n_words, max_components
    code = f"from experiments.sppca_text import fit_all_posts; fit_all_posts{arguments!r}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(options: Options) -> Outcome:
    """Silhouettes of two tables, then dimension, memory and neighbours of the large one."""
    studies = {"short messages": _of_messages(options)}
    if not options.quick:
        studies["alt.atheism and sci.med"] = _of_posts(options)
    tables = [_table(name, *study) for name, study in studies.items()]
    size = (200, 200, 3) if options.quick else (None, None, MAX_COMPONENTS)
    large = Cells("sppca_text", options).get(measure_apart, size, 1)[0]
    tables.append(_large_table(large))
    accuracy = large["accuracy"]
    targets = [Target("four groups: peak memory in MB", large["megabytes"], "<", MOST_MEGABYTES)]
    targets += [
        Target(f"four groups: accuracy above that of {name}", accuracy["SPPCA"], ">", accuracy[name])
        for name in ("PCA", "TruncatedSVD")
    ]
    pictures = [name for label, study in studies.items() for name in _draw(label, *study, options)]
    return Outcome(tables, targets, _notes(large), pictures)


def _table(name: str, texts: Texts, found: Mapping[str, Row]) -> Table:
    is_like_paper = len(texts.X) == 100
    rows = [
        (
            method,
            row.scores.shape[1],
            PAPER_COMPONENTS.get(method) if is_like_paper else None,
            row.clusters,
            PAPER.get(method) if is_like_paper else None,
            row.kinds,
            f"{row.n_nonzero} of {row.model.components_.size}",
        )
        for method, row in found.items()
    ]
    head = ("method", "d", "paper's d", "silhouette", "paper's", "of the kinds", "non-zero loadings")
    shape = f"{texts.X.shape[0]} x {texts.X.shape[1]}"
    return Table(f"Table 5, {name} ({shape}): average silhouettes", head, rows)


def _large_table(found: Mapping[str, Any]) -> Table:
    rows = [(name, found["components"], value) for name, value in found["accuracy"].items()]
    n, p = found["shape"]
    title = f"Four newsgroups ({n} x {p}): {N_NEIGHBOURS} nearest neighbours on the scores, {N_FOLDS} folds"
    return Table(title, ("method", "d", "accuracy"), rows)


def _notes(large: Mapping[str, Any]) -> list[str]:
    evidence = ", ".join(f"{rank}: {value:.1f}" for rank, value in large["evidence"].items())
    return [
        "The paper's figures are of letters that are private: only the shape of the table is comparable. Silhouettes "
        "are of the clusters that k-medoids finds, as in the paper, and of the true kinds. Published algorithms have "
        f"M = {THRESHOLD:g} (messages) and 100 (posts) and a price of {SPARSITY}; they start from D - 1 and "
        f"{PAIR_COMPONENTS} components. For the posts the defaults have their lengths as offset; how many words of "
        "the lexicon a message has is what tells spam.",
        f"Four newsgroups: {large['components']} components (at most {large['most']}) in "
        f"{large['seconds']:.0f} s, {large['megabytes']:.0f} MB at most, {large['megabytes before']:.0f} MB of them "
        f"before the fit; bound on the evidence by number of components: {evidence}.",
    ]


def _draw(label: str, texts: Texts, found: Mapping[str, Row], options: Options) -> list[str]:
    """Figure 3: the first two components by all methods."""
    path = options.picture(f"sppca_text_{'messages' if label.startswith('short') else 'posts'}.png")
    if path is None:
        return []
    panels = [(f"{name} (d = {row.scores.shape[1]})", row.model, row.scores) for name, row in found.items()]
    draw_scores(panels, texts.named, path, columns=4)
    return [path.name]


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    return run_module(__name__, argv)


if __name__ == "__main__":
    raise SystemExit(main())
