"""Data to try the models on: loaders of stored sets, and generators with a known truth."""

from anypca._lazy import public as _public
from anypca.datasets._dataset import Dataset as Dataset
from anypca.datasets.counts import SparseCounts as SparseCounts
from anypca.datasets.counts import make_low_rank_counts as make_low_rank_counts
from anypca.datasets.counts import make_sparse_counts as make_sparse_counts
from anypca.datasets.generators import LowRank as LowRank
from anypca.datasets.generators import PrototypeBits as PrototypeBits
from anypca.datasets.generators import make_low_rank as make_low_rank
from anypca.datasets.generators import make_prototype_bits as make_prototype_bits
from anypca.datasets.loaders import fetch_reference as fetch_reference
from anypca.datasets.loaders import load_barents as load_barents
from anypca.datasets.loaders import load_bibliometrics as load_bibliometrics
from anypca.datasets.loaders import load_blood_cells as load_blood_cells
from anypca.datasets.loaders import load_breast_cancer_original as load_breast_cancer_original
from anypca.datasets.loaders import load_digits_counts as load_digits_counts
from anypca.datasets.loaders import load_golub as load_golub
from anypca.datasets.loaders import load_iris as load_iris
from anypca.datasets.loaders import load_mnist_5000 as load_mnist_5000
from anypca.datasets.loaders import load_mnist_sevens as load_mnist_sevens
from anypca.datasets.loaders import load_mollusk as load_mollusk
from anypca.datasets.loaders import load_newsgroups4 as load_newsgroups4
from anypca.datasets.loaders import load_newsgroups20 as load_newsgroups20
from anypca.datasets.loaders import load_oaks as load_oaks
from anypca.datasets.loaders import load_pbmc_facs as load_pbmc_facs
from anypca.datasets.loaders import load_penguins as load_penguins
from anypca.datasets.loaders import load_pitprops as load_pitprops
from anypca.datasets.loaders import load_scrna_mixology as load_scrna_mixology
from anypca.datasets.loaders import load_sms_lexicon as load_sms_lexicon
from anypca.datasets.loaders import load_trichoptera as load_trichoptera
from anypca.datasets.loaders import load_usps as load_usps
from anypca.datasets.loaders import load_usps_012 as load_usps_012
from anypca.datasets.loaders import load_wine as load_wine
from anypca.datasets.surfaces import BentSheet as BentSheet
from anypca.datasets.surfaces import GloballySparse as GloballySparse
from anypca.datasets.surfaces import SwissRoll as SwissRoll
from anypca.datasets.surfaces import make_globally_sparse as make_globally_sparse
from anypca.datasets.surfaces import make_hinge as make_hinge
from anypca.datasets.surfaces import make_swiss_roll as make_swiss_roll

__all__ = _public(globals())
