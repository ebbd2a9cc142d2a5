"""Data to try the models on: loaders of stored sets, and generators with a known truth."""

from __future__ import annotations

from anypca.datasets._dataset import Dataset
from anypca.datasets.generators import LowRank, make_low_rank
from anypca.datasets.loaders import (
    load_barents,
    load_bibliometrics,
    load_breast_cancer_original,
    load_digits_counts,
    load_golub,
    load_mnist_5000,
    load_mnist_sevens,
    load_mollusk,
    load_newsgroups4,
    load_newsgroups20,
    load_oaks,
    load_pbmc_facs,
    load_pitprops,
    load_scrna_mixology,
    load_sms_lexicon,
    load_trichoptera,
    load_usps,
)

__all__ = [
    "Dataset",
    "LowRank",
    "load_barents",
    "load_bibliometrics",
    "load_breast_cancer_original",
    "load_digits_counts",
    "load_golub",
    "load_mnist_5000",
    "load_mnist_sevens",
    "load_mollusk",
    "load_newsgroups4",
    "load_newsgroups20",
    "load_oaks",
    "load_pbmc_facs",
    "load_pitprops",
    "load_scrna_mixology",
    "load_sms_lexicon",
    "load_trichoptera",
    "load_usps",
    "make_low_rank",
]
