"""The files of the stored data sets: what they are checked by, where they were made from, and where they are found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from anypca._optional import optional

#: The environment variable that names the folder of the data files.
FOLDER_VARIABLE = "ANYPCA_DATA"
#: The environment variable that names the address of such a folder, ``https://...``.
ADDRESS_VARIABLE = "ANYPCA_DATA_URL"


@dataclass(frozen=True)
class File:
    """What is known of a data file."""

    sha256: str
    source: str
    """What it was made from."""


#: Checksum and name of each file, by what it was made from.
_SUMS = {
    "the files of github.com/uniformlyMatt/piecewise-pca": """
        cedd6c672b1f1e8cc440ed080b8682219d77d23bd95a2c063e8adba2b1ac3262 bibliometrics_standardized.csv.gz
        b50aab56c829e615d7e7f8dbefa1ab6f35b5b7a26ae224335ba9e111457bd319 bibliometrics_counts.csv.gz
        42b91d7e393217430abb4c09ec932a7318cd63857fd7105e5a561eb9c24497d4 bibliometrics_reference.npz
    """,
    "data(BreastCancer) of the R package mlbench": """
        9c1b21cc576d7e2853772c9447cd3e997e850f7fe48657b6377cbafbad70708c breast_cancer_wisconsin_original.csv.gz
    """,
    "zip.train.gz and zip.test.gz of the site of The Elements of Statistical Learning": """
        394c40ffe41a0bc9917e4eea1cbac0ff72917b8ebe27da9fabef1e8a99b14e88 usps.npz
        08a307a126eb39bafe138834bb950b622438ec34ff25fea84a498fc593de3e6d usps_012.npz
    """,
    "inst/datasets/newsgroups.RData of github.com/stephenslab/fastglmpca": """
        06d8de2948da87e4bfb82a6da8fdd77ca78d4a45ce0db29dca24fb28f9f385f0 newsgroups20_counts.npz
        ead800feb6d45e8cca9bce5232bd247d44856f2d458d54941637f705afae486a newsgroups20_meta.npz
        d894e09871b76455ce10aee75d6493b14b9948875214c188ccff666812eb4d3c newsgroups20_vocab.txt.gz
        e8598a155fe98bcc0607f90a3d04507fb4c727a367657cc745e2afd08b87adeb newsgroups4_counts.npz
        bbf159446c59584aef62237fe3973be7613667025ff7bc6854cc8adb853dc4b2 newsgroups4_meta.npz
        9a85ca519c134ab8fb0b78bcb7374b74ed116c8e8905a703d6c3b0bbd9b60319 newsgroups4_vocab.txt.gz
    """,
    "data(golub) of the Bioconductor package multtest": """
        042b1a5889490e9f2803eb3398a8edf753d5e533d90e2e97b335e090f064d005 golub.npz
    """,
    "the training images of MNIST, with backgrounds drawn anew for two of the three sets of sevens": """
        a71afc29ed8851fa35d39bc343abe365e308b9384055c06e01fa71fc9f9d23a0 mnist_sevens.npz
        bb6d2c61a4c70e740c499aec3630098257dfb3b9f128984c4f0afdbefeb5f947 mnist_5000.npz
    """,
    "data/pbmc_facs.RData of github.com/stephenslab/fastglmpca": """
        5ed4b5cf2b27bd4c38f683bd07f597c21df105255f6351909516beb2df78f4e3 pbmc_facs_counts.npz
        12e5f786179e576cc4f85cd4b3bf018204b5f45e525854738b91fdfc41968930 pbmc_facs_test_counts.npz
        2442bc835c6d6a090c77a2ed2d8aba36a532295228610c7a1eb0347df26f3319 pbmc_facs_meta.npz
        551e012458cae44e8e1a2d0c9d5213a2e7a9eca05e1095df68d619808256b8da pbmc_facs_fastglmpca_fit.npz
    """,
    "data/*.rda of github.com/PLN-team/PLNmodels": """
        618fcd8f4480bbab6e6b62b092da9e923912f03001447ae2abd20cc55351a846 oaks.npz
        b45bc6f508beade63e608cfedce0eeeffb56e23a65b81caa08fd25236c6eefc2 trichoptera.npz
        4b779b739d455ae7b22f1c64f9ca60e9d551bd906009f5fb3cdb9355e37dd62d mollusk.npz
        8d2aeddd8c982e5a9bbaaaab77a832dc95c166e903ab3a2d44ebc968c74ba2c8 barents.npz
        30ad0ce434f376e5d635313592f01fc5812ee15714ebb6887b620ca27777cf40 scRNA_mixology.npz
    """,
    "data(pitprops) of the R package elasticnet": """
        51cf236d6f29d456e2b795273bff81d524358a3ea11a91a7807c49a941c9bee7 pitprops.npz
        edfd958184e74e12f6e92725da3e2f4cd06928c74b6de17c3037b2cb6d6e7212 pitprops_correlation.csv.gz
    """,
    "the SMS Spam Collection of the UCI repository, 50 messages drawn of each class": """
        a2f468ee4ae00367391b1335a64eebc2447cea459b1353a8b524349d726714d1 sms_lexicon_standin.npz
    """,
}
FILES: dict[str, File] = {
    name: File(checksum, source)
    for source, lines in _SUMS.items()
    for checksum, name in (line.split() for line in lines.split("\n") if line.strip())
}


def find_file(name: str) -> Path:
    """Where a data file is: in the folder of ``ANYPCA_DATA``, or downloaded from the address of ``ANYPCA_DATA_URL``.

    Parameters
    ----------
    name : str
        A key of `FILES`.

    Returns
    -------
    path : Path
        A downloaded file is kept in the user's cache, and is the right one by its checksum.

    Raises
    ------
    FileNotFoundError
        If no variable is set, the folder or the file is missing, or the download fails.
    ValueError
        If a downloaded file is not the right one.
    """
    if os.environ.get(FOLDER_VARIABLE):
        return _in_folder(Path(os.environ[FOLDER_VARIABLE]), name)
    if os.environ.get(ADDRESS_VARIABLE):
        return _download(f"{os.environ[ADDRESS_VARIABLE].rstrip('/')}/{name}", name)
    raise FileNotFoundError(
        f"the data file {name} is not part of the package, and no public archive has it: set the environment variable "
        f"{FOLDER_VARIABLE} to the folder that holds it, or {ADDRESS_VARIABLE} to the address of such a folder. It was "
        f"made from {FILES[name].source}."
    )


def _in_folder(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE} is set to {folder}, which is no folder. Set it to the folder of the data files."
        )
    if not (folder / name).is_file():
        raise FileNotFoundError(
            f"there is no file {name} in {folder}, the folder named by {FOLDER_VARIABLE}. Put it there or set the "
            f"variable to the folder that holds it. It was made from {FILES[name].source}."
        )
    return folder / name


def _download(address: str, name: str) -> Path:
    with optional("downloading", "pooch", "datasets"):
        import pooch
    try:
        found = pooch.retrieve(
            address,
            f"sha256:{FILES[name].sha256}",
            fname=name,
            path=pooch.os_cache("anypca"),
            progressbar=False,
        )
    except OSError as error:
        raise FileNotFoundError(
            f"{address} could not be downloaded: {error}. Check {ADDRESS_VARIABLE}, or put the file into a folder "
            f"and set {FOLDER_VARIABLE} to it."
        ) from error
    return Path(found)
