"""Loaders of data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from anypca.datasets._dataset import Dataset, load, pixel_names, read_arrays, read_packaged

#: The files of published results.
_REFERENCES = {
    "bibliometrics": "bibliometrics_reference.npz",
    "pbmc_facs": "pbmc_facs_fastglmpca_fit.npz",
}


def _choose(stem: str, option: str, value: str, allowed: tuple[str, ...]) -> Dataset:
    """One of the variants of a data set."""
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")
    return load(f"{stem}_{value}")


def load_barents() -> Dataset:
    """Fish of the Barents Sea: counts 89 x 30, with offset and covariates.

    In the package. Source and licence: M. Fossheim et al. Distributed with the R package PLNmodels (GPL >= 3).

    See Also
    --------
    load_trichoptera : another table of species counts.
    """
    return load("barents")


def load_bibliometrics(kind: str = "counts") -> Dataset:
    """Publication records of 2230 authors: 9 counts, or 16 standardised logarithms.

    In the package. Source and licence: Drawn from Scopus without names; piecewise-pca repository of M. Adams
    (Apache-2.0).

    Parameters
    ----------
    kind : {"counts", "standardized"}

    See Also
    --------
    load_digits_counts : counts that need no files.
    """
    return _choose("bibliometrics", "kind", kind, ("counts", "standardized"))


def load_blood_cells() -> Dataset:
    """Sorted blood cells: gene counts 600 x 300, ten cell types.

    In the package: 60 cells of each type of `load_pbmc_facs` and the 300 genes with the largest binomial deviance.
    Source and licence: Zheng et al. 2017, 10x Genomics (CC BY 4.0).

    See Also
    --------
    load_pbmc_facs : all cells and genes.

    Examples
    --------
    >>> from anypca.datasets import load_blood_cells
    >>> load_blood_cells().X.shape
    (600, 300)
    """
    return load("blood_cells")


def load_breast_cancer_original() -> Dataset:
    """Load Wisconsin breast cancer, the original set: grades 699 x 9 from 1 to 10, with missing cells.

    In the package. Source and licence: W. H. Wolberg, UCI repository (CC BY 4.0).

    See Also
    --------
    load_wine : measurements that need no files.
    """
    return load("breast_cancer_original")


def load_golub() -> Dataset:
    """Leukemia gene expression: real values 38 x 3051, two classes.

    Needs the folder ``ANYPCA_DATA``. Source and licence: Golub et al. 1999; Bioconductor package multtest (LGPL).

    See Also
    --------
    load_scrna_mixology : counts of genes.
    """
    return load("golub")


def load_mnist_5000() -> Dataset:
    """Handwritten digits: grey values 5000 x 784, ten classes.

    Needs the folder ``ANYPCA_DATA``. Source and licence: Y. LeCun and C. Cortes (CC BY-SA 3.0).

    See Also
    --------
    load_mnist_sevens : sevens on three backgrounds.
    """
    return load("mnist_5000")


def load_mnist_sevens(variant: str = "basic") -> Dataset:
    """Handwritten sevens on three backgrounds: grey values 500 x 784.

    Needs the folder ``ANYPCA_DATA``. Source and licence: Y. LeCun and C. Cortes (CC BY-SA 3.0).

    Parameters
    ----------
    variant : {"basic", "back_rand", "back_image"}

    See Also
    --------
    load_mnist_5000 : all digits.
    """
    return _choose("mnist_sevens", "variant", variant, ("basic", "back_rand", "back_image"))


def load_mollusk() -> Dataset:
    """Molluscs in rivers: counts 163 x 32, with covariates.

    In the package. Source and licence: Richardot-Coulet, Chessel and Bournaud. Distributed with the R package
    PLNmodels (GPL >= 3).

    See Also
    --------
    load_oaks : another table of species counts with covariates.
    """
    return load("mollusk")


def load_newsgroups4() -> Dataset:
    """Posts of 4 newsgroups: sparse word counts 3730 x 10254.

    Needs the folder ``ANYPCA_DATA``. Source and licence: J. Rennie's version of 20 newsgroups (public posts, no
    explicit licence); R package fastglmpca (GPL >= 2).

    See Also
    --------
    load_newsgroups20 : all groups.
    """
    return load("newsgroups4")


def load_newsgroups20() -> Dataset:
    """Posts of 20 newsgroups: sparse word counts 18774 x 29360.

    Needs the folder ``ANYPCA_DATA``. Source and licence: J. Rennie's version of 20 newsgroups (public posts, no
    explicit licence); R package fastglmpca (GPL >= 2).

    See Also
    --------
    load_newsgroups4 : four of the groups.
    """
    return load("newsgroups20")


def load_oaks() -> Dataset:
    """Microbes on oak leaves: counts 116 x 114, with offset and covariates.

    In the package. Source and licence: B. Jakuschkin et al. Distributed with the R package PLNmodels (GPL >= 3).

    See Also
    --------
    load_trichoptera : a smaller table.
    """
    return load("oaks")


def load_pbmc_facs(subset: str = "train") -> Dataset:
    """Sorted blood cells: sparse gene counts 3774 x 16791 (100 x 16791 for the test part).

    Needs the folder ``ANYPCA_DATA``. Source and licence: Zheng et al. 2017, 10x Genomics (CC BY 4.0); R package
    fastglmpca (GPL >= 2).

    Parameters
    ----------
    subset : {"train", "test"}

    See Also
    --------
    load_scrna_mixology : fewer genes.
    """
    return _choose("pbmc_facs", "subset", subset, ("train", "test"))


def load_penguins() -> Dataset:
    """Penguins of Antarctica: 344 rows, four measurements, year and three columns of labels, some cells missing.

    In the package. Source and licence: K. B. Gorman, T. D. Williams and W. R. Fraser 2014; package palmerpenguins of
    A. M. Horst, A. P. Hill and K. B. Gorman (CC0).

    See Also
    --------
    load_breast_cancer_original : grades with missing cells.

    Examples
    --------
    >>> from anypca.datasets import load_penguins
    >>> load_penguins().to_frame()["species"].nunique()
    3
    """
    return load("penguins")


def load_pitprops() -> Dataset:
    """Pit props: the correlation matrix 13 x 13 of 180 logs.

    In the package. Source and licence: Jeffers 1967; R package elasticnet (GPL >= 2).

    See Also
    --------
    load_wine : measurements of rows.
    """
    return load("pitprops")


def load_scrna_mixology() -> Dataset:
    """Five cancer cell lines: gene counts 3918 x 500.

    Needs the folder ``ANYPCA_DATA``. Source and licence: L. Tian et al. Distributed with the R package PLNmodels
    (GPL >= 3).

    See Also
    --------
    load_pbmc_facs : more cells and genes.
    """
    return load("scrna_mixology")


def load_sms_lexicon() -> Dataset:
    """Wanted and unwanted text messages: term counts 100 x 55.

    In the package. Source and licence: T. A. Almeida and J. M. Gomez Hidalgo, UCI repository (CC BY 4.0).

    See Also
    --------
    load_newsgroups4 : words of texts.
    """
    return load("sms_lexicon")


def load_trichoptera() -> Dataset:
    """Caddisflies: counts 49 x 17, with the weather as covariates.

    In the package. Source and licence: P. Usseglio-Polatera. Distributed with the R package PLNmodels (GPL >= 3).

    See Also
    --------
    load_oaks : another table of species counts.
    """
    return load("trichoptera")


def load_usps(subset: str = "train") -> Dataset:
    """Digits from envelopes: grey values 7291 x 256 in [-1, 1] (2007 x 256 for the test part).

    Needs the folder ``ANYPCA_DATA``. Source and licence: Site of The Elements of Statistical Learning, AT&T
    research labs (no explicit licence).

    Parameters
    ----------
    subset : {"train", "test"}

    See Also
    --------
    load_usps_012 : three of the digits, fewer grey values.
    """
    return _choose("usps", "subset", subset, ("train", "test"))


def load_usps_012() -> Dataset:
    """Zeros, ones and twos from envelopes: 2930 x 100 steps of grey from 1 to 16, three classes.

    Needs the folder ``ANYPCA_DATA``. Source and licence: Site of The Elements of Statistical Learning, AT&T
    research labs (no explicit licence).

    Read as binomial with 17 trials in Li and Tao (2013).

    See Also
    --------
    load_usps : all digits.
    """
    return load("usps_012")


def fetch_reference(name: str) -> Mapping[str, Any]:
    """Published results for a data set.

    Parameters
    ----------
    name : {"bibliometrics", "pbmc_facs", "pitprops"}
        Scores and models of the piecewise PCA thesis; the rank-2 fit of fastglmpca on 3000 genes; sparse loadings
        computed with elasticnet.

    Returns
    -------
    arrays : mapping of str to ndarray
        The published results, by name.

    See Also
    --------
    load_pbmc_facs : a table with such results.
    load_bibliometrics : another one.
    """
    if name == "pitprops":
        stored, prefix = read_packaged(name), "reference_"
        return MappingProxyType(
            {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}
        )
    if name not in _REFERENCES:
        raise ValueError(
            f"name must be one of {', '.join(map(repr, (*_REFERENCES, 'pitprops')))}; got {name!r}."
        )
    return MappingProxyType(read_arrays(_REFERENCES[name]))


def load_iris() -> Dataset:
    """Scikit-learn's iris: positive measurements 150 x 4, three classes; needs no files.

    See Also
    --------
    load_wine : more columns.
    """
    return _from_sklearn("iris", "Petals and sepals of 150 irises, in cm. R. A. Fisher, UCI repository")


def load_wine() -> Dataset:
    """Scikit-learn's wine: positive measurements 178 x 13, three classes; needs no files.

    See Also
    --------
    load_iris : fewer columns.
    """
    about = "Chemical analysis of 178 wines of three growers. M. Forina et al., UCI repository"
    return _from_sklearn("wine", about)


def load_digits_counts() -> Dataset:
    """Scikit-learn's digits: counts 1797 x 64 from 0 to 16, ten classes; needs no files.

    Pixels are called ``r<row>c<column>``, counted from 0.

    See Also
    --------
    load_usps : digits in grey values.

    Examples
    --------
    >>> from anypca.datasets import load_digits_counts
    >>> load_digits_counts().X.shape
    (1797, 64)
    """
    about = (
        "1797 handwritten digits, 8 x 8 pixels, each the number of inked points (0 to 16) of a 4 x 4 square. "
        "E. Alpaydin and C. Kaynak, UCI repository"
    )
    return _from_sklearn("digits", about, pixel_names(8, 64))


def _from_sklearn(name: str, about: str, names: Sequence[str] | None = None) -> Dataset:
    """Convert a data set of scikit-learn."""
    from sklearn import datasets  # takes a third of a second

    found = getattr(datasets, f"load_{name}")()
    return Dataset(
        X=np.asarray(found.data, dtype=float),
        feature_names=tuple(names or found.feature_names),
        target=np.asarray(found.target),
        target_names=tuple(map(str, found.target_names)),
        offset=None,
        covariates=MappingProxyType({}),
        description=f"{about} (CC BY 4.0), distributed with scikit-learn.",
    )
