"""The table of stored data sets."""

from __future__ import annotations

from anypca.datasets._dataset import Spec

_PLN = "Distributed with the R package PLNmodels (GPL >= 3)."
_MNIST = "MNIST: Y. LeCun and C. Cortes (CC BY-SA 3.0)."
_NEWS = (
    "J. Rennie's processed bydate version of 20 newsgroups (public Usenet posts, no explicit licence), as "
    "distributed with the R package fastglmpca (GPL >= 2). Counts only; stop words are in the vocabulary, "
    "terms in fewer than 5 documents are not. The covariate is_test marks the later, held-out posts."
)
_PBMC = (
    "sorted blood cells, unique molecular identifiers by cell and gene. Zheng et al. 2017, 10x Genomics "
    "(CC BY 4.0), as distributed with the R package fastglmpca (GPL >= 2). The target is the sorted cell "
    "type, the covariate subpop its coarser group."
)
_USPS = (
    "handwritten digits scanned from envelopes, 16 x 16 grey values in [-1, 1]. From the site of The "
    "Elements of Statistical Learning, made available by AT&T research labs; no explicit licence."
)
_BIBLIOMETRICS = (
    "2230 authors of scientific papers, drawn from Scopus without names or identifiers. Published with the "
    "piecewise-pca repository of M. Adams (Apache-2.0)."
)

SPECS: dict[str, Spec] = {
    "barents": Spec(
        X="barents.npz:counts",
        features="barents.npz:taxa",
        offset="barents.npz:offset",
        description=f"Fish caught at 89 places of the Barents Sea, 30 species. M. Fossheim et al. {_PLN}",
    ),
    "bibliometrics_counts": Spec(
        X="bibliometrics_counts.csv.gz",
        description=f"Publication counts of {_BIBLIOMETRICS} The counts are recovered from the published "
        "standardised logarithms.",
    ),
    "bibliometrics_standardized": Spec(
        X="bibliometrics_standardized.csv.gz",
        description=f"Standardised logarithms of 16 indicators of {_BIBLIOMETRICS}",
    ),
    "breast_cancer_original": Spec(
        X="breast_cancer_wisconsin_original.csv.gz",
        drop=("malignant",),
        target="breast_cancer_wisconsin_original.csv.gz:malignant",
        target_names=("benign", "malignant"),
        missing=-1,
        description="Nine cytological grades from 1 to 10 of 699 breast tumours, 16 cells missing. W. H. "
        "Wolberg, UCI repository (CC BY 4.0). This is the original set, not the diagnostic one.",
    ),
    "golub": Spec(
        X="golub.npz:X",
        features="golub.npz:gene_id",
        target="golub.npz:y",
        target_names="golub.npz:class_names",
        description="Expression of 3051 genes in 38 leukemia patients, each array standardised. Golub et al. "
        "1999, as distributed with the Bioconductor package multtest (LGPL).",
    ),
    "mnist_5000": Spec(
        X="mnist_5000.npz:X",
        target="mnist_5000.npz:y",
        pixels=28,
        description=f"The first 5000 training images of handwritten digits, 28 x 28, grey 0 to 255. {_MNIST}",
    ),
    "mollusk": Spec(
        X="mollusk.npz:counts",
        features="mollusk.npz:taxa",
        description="Molluscs caught on artificial substrates in rivers, 163 samples, 32 species. "
        f"Richardot-Coulet, Chessel and Bournaud. {_PLN}",
    ),
    "newsgroups4": Spec(
        X="newsgroups4_counts.npz",
        features="newsgroups4_vocab.txt.gz",
        target="newsgroups4_meta.npz:labels",
        target_names="newsgroups4_meta.npz:label_names",
        covariates={"is_test": "newsgroups4_meta.npz:is_test"},
        description=f"Word counts of 3730 posts in 4 newsgroups. {_NEWS}",
    ),
    "newsgroups20": Spec(
        X="newsgroups20_counts.npz",
        features="newsgroups20_vocab.txt.gz",
        target="newsgroups20_meta.npz:labels",
        target_names="newsgroups20_meta.npz:label_names",
        covariates={"is_test": "newsgroups20_meta.npz:is_test"},
        description=f"Word counts of 18774 posts in 20 newsgroups. {_NEWS}",
    ),
    "oaks": Spec(
        X="oaks.npz:counts",
        features="oaks.npz:taxa",
        offset="oaks.npz:offset",
        description="Fungi and bacteria on 116 leaves of three oaks, 114 taxa; the offset is the logarithm "
        f"of the reads of a leaf in each kingdom. B. Jakuschkin et al. {_PLN}",
    ),
    "pbmc_facs_train": Spec(
        X="pbmc_facs_counts.npz",
        features="pbmc_facs_meta.npz:gene_symbol",
        target="pbmc_facs_meta.npz:celltype",
        covariates={"subpop": "pbmc_facs_meta.npz:subpop", "barcode": "pbmc_facs_meta.npz:barcode"},
        description=f"3774 {_PBMC}",
    ),
    "pbmc_facs_test": Spec(
        X="pbmc_facs_test_counts.npz",
        features="pbmc_facs_meta.npz:gene_symbol",
        target="pbmc_facs_meta.npz:celltype_test",
        covariates={"subpop": "pbmc_facs_meta.npz:subpop_test"},
        description=f"100 further {_PBMC}",
    ),
    "pitprops": Spec(
        X="pitprops.npz:R",
        features="pitprops.npz:variables",
        description="Correlations of 13 measurements on 180 pine logs used as pit props: a correlation "
        "matrix, not a table of samples. Jeffers 1967, as distributed with the R package elasticnet "
        "(GPL >= 2).",
    ),
    "scrna_mixology": Spec(
        X="scRNA_mixology.npz:counts",
        features="scRNA_mixology.npz:genes",
        target="scRNA_mixology.npz:cell_line",
        covariates={"total_counts": "scRNA_mixology.npz:total_counts"},
        description=f"3918 cells of five cancer cell lines, 500 genes. L. Tian et al. {_PLN}",
    ),
    "sms_lexicon": Spec(
        X="sms_lexicon_standin.npz:counts",
        features="sms_lexicon_standin.npz:terms",
        target="sms_lexicon_standin.npz:is_spam",
        target_names=("ham", "spam"),
        description="Counts of 55 frequent terms in 50 wanted and 50 unwanted text messages, drawn from the "
        "SMS Spam Collection of Almeida and Hidalgo, UCI repository (CC BY 4.0).",
    ),
    "trichoptera": Spec(
        X="trichoptera.npz:counts",
        features="trichoptera.npz:taxa",
        description="Caddisflies caught in 49 nights, 17 species, with the weather. P. Usseglio-Polatera. "
        f"{_PLN}",
    ),
    "usps_train": Spec(
        X="usps.npz:X_train",
        target="usps.npz:y_train",
        divisor=1000.0,
        pixels=16,
        description=f"7291 {_USPS}",
    ),
    "usps_test": Spec(
        X="usps.npz:X_test",
        target="usps.npz:y_test",
        divisor=1000.0,
        pixels=16,
        description=f"2007 further {_USPS}",
    ),
    "usps_012": Spec(
        X="usps_012.npz:X10",
        target="usps_012.npz:y",
        target_names=("0", "1", "2"),
        pixels=10,
        description=f"2930 zeros, ones and twos, averaged to 10 x 10 pixels of 1 to 16 steps of grey, of {_USPS}",
    ),
    **{
        f"mnist_sevens_{variant}": Spec(
            X=f"mnist_sevens.npz:{variant}",
            pixels=28,
            description=f"500 handwritten sevens, 28 x 28, grey 0 to 255, {background}. {_MNIST}",
        )
        for variant, background in {
            "basic": "on black",
            "back_rand": "on random noise",
            "back_image": "on patches of photographs",
        }.items()
    },
}
