"""Loaders of the stored data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.datasets._dataset import SPECS, Dataset, load, pixel_names, read_arrays

#: The files of published results.
_REFERENCES = {
    "bibliometrics": "bibliometrics_reference.npz",
    "pbmc_facs": "pbmc_facs_fastglmpca_fit.npz",
    "pitprops": "pitprops.npz",
}


def _choose(stem: str, option: str, value: str, allowed: tuple[str, ...]) -> Dataset:
    """Load one of the variants of a data set."""
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")
    return load(SPECS[f"{stem}_{value}"])


def load_barents() -> Dataset:
    """Fish of the Barents Sea: counts 89 x 30, with offset and covariates.

    See Also
    --------
    load_trichoptera : another table of species counts.
    """
    return load(SPECS["barents"])


def load_bibliometrics(kind: str = "counts") -> Dataset:
    """Publication records of 2230 authors: 9 counts, or 16 standardised logarithms.

    Parameters
    ----------
    kind : {"counts", "standardized"}

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_digits_counts : counts that need no files.
    """
    return _choose("bibliometrics", "kind", kind, ("counts", "standardized"))


def load_breast_cancer_original() -> Dataset:
    """Wisconsin breast cancer, the original set: grades 699 x 9 from 1 to 10, with missing cells.

    See Also
    --------
    load_wine : measurements that need no files.
    """
    return load(SPECS["breast_cancer_original"])


def load_golub() -> Dataset:
    """Leukemia gene expression: real values 38 x 3051, two classes.

    See Also
    --------
    load_scrna_mixology : counts of genes.
    """
    return load(SPECS["golub"])


def load_mnist_5000() -> Dataset:
    """Handwritten digits: grey values 5000 x 784, ten classes.

    See Also
    --------
    load_mnist_sevens : sevens on three backgrounds.
    """
    return load(SPECS["mnist_5000"])


def load_mnist_sevens(variant: str = "basic") -> Dataset:
    """Handwritten sevens on three backgrounds: grey values 500 x 784.

    Parameters
    ----------
    variant : {"basic", "back_rand", "back_image"}

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_mnist_5000 : all digits.
    """
    return _choose("mnist_sevens", "variant", variant, ("basic", "back_rand", "back_image"))


def load_mollusk() -> Dataset:
    """Molluscs in rivers: counts 163 x 32, with covariates.

    See Also
    --------
    load_oaks : another table of species counts with covariates.
    """
    return load(SPECS["mollusk"])


def load_newsgroups4() -> Dataset:
    """Posts of 4 newsgroups: sparse word counts 3730 x 10254.

    See Also
    --------
    load_newsgroups20 : all groups.
    """
    return load(SPECS["newsgroups4"])


def load_newsgroups20() -> Dataset:
    """Posts of 20 newsgroups: sparse word counts 18774 x 29360.

    See Also
    --------
    load_newsgroups4 : four of the groups.
    """
    return load(SPECS["newsgroups20"])


def load_oaks() -> Dataset:
    """Microbes on oak leaves: counts 116 x 114, with offset and covariates.

    See Also
    --------
    load_trichoptera : a smaller table with an offset.
    """
    return load(SPECS["oaks"])


def load_pbmc_facs(subset: str = "train") -> Dataset:
    """Sorted blood cells: sparse gene counts 3774 x 16791 (100 x 16791 for the test part).

    Parameters
    ----------
    subset : {"train", "test"}

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_scrna_mixology : fewer genes.
    """
    return _choose("pbmc_facs", "subset", subset, ("train", "test"))


def load_pitprops() -> Dataset:
    """Pit props: the correlation matrix 13 x 13 of 180 logs.

    See Also
    --------
    load_wine : measurements of rows.
    """
    return load(SPECS["pitprops"])


def load_scrna_mixology() -> Dataset:
    """Five cancer cell lines: gene counts 3918 x 500.

    See Also
    --------
    load_pbmc_facs : more cells and genes.
    """
    return load(SPECS["scrna_mixology"])


def load_sms_lexicon() -> Dataset:
    """Wanted and unwanted text messages: term counts 100 x 55.

    See Also
    --------
    load_newsgroups4 : words of texts.
    """
    return load(SPECS["sms_lexicon"])


def load_trichoptera() -> Dataset:
    """Caddisflies: counts 49 x 17, with the weather as covariates.

    See Also
    --------
    load_oaks : another table of species counts with an offset.
    """
    return load(SPECS["trichoptera"])


def load_usps(subset: str = "train") -> Dataset:
    """Digits from envelopes: grey values 7291 x 256 in [-1, 1] (2007 x 256 for the test part).

    Parameters
    ----------
    subset : {"train", "test"}

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_usps_012 : three of the digits, fewer grey values.
    """
    return _choose("usps", "subset", subset, ("train", "test"))


def load_usps_012() -> Dataset:
    """Zeros, ones and twos from envelopes: 2930 x 100 steps of grey from 1 to 16, three classes.

    Read as binomial with 17 trials in Li and Tao (2013).

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_usps : all digits.
    """
    return load(SPECS["usps_012"])


def fetch_reference(name: str) -> Mapping[str, Any]:
    """Results that the authors of a model published for a stored data set, to compare with.

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
    if name not in _REFERENCES:
        raise ValueError(f"name must be one of {', '.join(map(repr, _REFERENCES))}; got {name!r}.")
    return MappingProxyType(read_arrays(_REFERENCES[name]))


def load_iris() -> Dataset:
    """Scikit-learn's iris: positive measurements 150 x 4, three classes; needs no files.

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_wine : more columns.
    """
    from sklearn import datasets

    about = "Petals and sepals of 150 irises, in cm. R. A. Fisher, UCI repository"
    return _from_sklearn(datasets.load_iris(), about)


def load_wine() -> Dataset:
    """Scikit-learn's wine: positive measurements 178 x 13, three classes; needs no files.

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_iris : fewer columns.
    """
    from sklearn import datasets

    about = "Chemical analysis of 178 wines of three growers. M. Forina et al., UCI repository"
    return _from_sklearn(datasets.load_wine(), about)


def load_digits_counts() -> Dataset:
    """Scikit-learn's digits: counts 1797 x 64 from 0 to 16, ten classes; needs no files.

    Pixels are called ``r<row>c<column>``, counted from 0.

    Returns
    -------
    dataset : Dataset
        The table, with what is known of its rows and columns.

    See Also
    --------
    load_usps : digits in grey values.

    Examples
    --------
    >>> from anypca.datasets import load_digits_counts
    >>> load_digits_counts().X.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    about = (
        "1797 handwritten digits, 8 x 8 pixels, each the number of inked points (0 to 16) of a 4 x 4 square. "
        "E. Alpaydin and C. Kaynak, UCI repository"
    )
    return _from_sklearn(load_digits(), about, pixel_names(8, 64))


def _from_sklearn(found: Any, about: str, names: Sequence[str] | None = None) -> Dataset:
    """A set that scikit-learn brings along."""
    X: Floats = np.asarray(found.data, dtype=float)
    return Dataset(
        X=X,
        feature_names=tuple(names if names is not None else found.feature_names),
        target=np.asarray(found.target),
        target_names=tuple(str(name) for name in found.target_names),
        offset=None,
        covariates=MappingProxyType({}),
        description=f"{about} (CC BY 4.0), distributed with scikit-learn.",
    )
