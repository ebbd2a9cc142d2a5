"""The files of the stored data sets: what they are checked by, where they were made from, and where they are found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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


_PIECEWISE = "the files of github.com/uniformlyMatt/piecewise-pca"
_MLBENCH = "data(BreastCancer) of the R package mlbench"
_ESL = "zip.train.gz and zip.test.gz of the site of The Elements of Statistical Learning"
_NEWS = "inst/datasets/newsgroups.RData of github.com/stephenslab/fastglmpca"
_MULTTEST = "data(golub) of the Bioconductor package multtest"
_MNIST = "the training images of MNIST, with backgrounds drawn anew for two of the three sets of sevens"
_PBMC = "data/pbmc_facs.RData of github.com/stephenslab/fastglmpca"
_PLN = "data/*.rda of github.com/PLN-team/PLNmodels"
_ELASTICNET = "data(pitprops) of the R package elasticnet"
_SMS = "the SMS Spam Collection of the UCI repository, 50 messages drawn of each class"

FILES: dict[str, File] = {
    "bibliometrics_standardized.csv.gz": File(
        "cedd6c672b1f1e8cc440ed080b8682219d77d23bd95a2c063e8adba2b1ac3262", _PIECEWISE
    ),
    "bibliometrics_counts.csv.gz": File(
        "b50aab56c829e615d7e7f8dbefa1ab6f35b5b7a26ae224335ba9e111457bd319", _PIECEWISE
    ),
    "bibliometrics_reference.npz": File(
        "42b91d7e393217430abb4c09ec932a7318cd63857fd7105e5a561eb9c24497d4", _PIECEWISE
    ),
    "breast_cancer_wisconsin_original.csv.gz": File(
        "9c1b21cc576d7e2853772c9447cd3e997e850f7fe48657b6377cbafbad70708c", _MLBENCH
    ),
    "usps.npz": File("394c40ffe41a0bc9917e4eea1cbac0ff72917b8ebe27da9fabef1e8a99b14e88", _ESL),
    "usps_012.npz": File("08a307a126eb39bafe138834bb950b622438ec34ff25fea84a498fc593de3e6d", _ESL),
    "newsgroups20_counts.npz": File(
        "06d8de2948da87e4bfb82a6da8fdd77ca78d4a45ce0db29dca24fb28f9f385f0", _NEWS
    ),
    "newsgroups20_meta.npz": File("ead800feb6d45e8cca9bce5232bd247d44856f2d458d54941637f705afae486a", _NEWS),
    "newsgroups20_vocab.txt.gz": File(
        "d894e09871b76455ce10aee75d6493b14b9948875214c188ccff666812eb4d3c", _NEWS
    ),
    "newsgroups4_counts.npz": File("e8598a155fe98bcc0607f90a3d04507fb4c727a367657cc745e2afd08b87adeb", _NEWS),
    "newsgroups4_meta.npz": File("bbf159446c59584aef62237fe3973be7613667025ff7bc6854cc8adb853dc4b2", _NEWS),
    "newsgroups4_vocab.txt.gz": File(
        "9a85ca519c134ab8fb0b78bcb7374b74ed116c8e8905a703d6c3b0bbd9b60319", _NEWS
    ),
    "golub.npz": File("042b1a5889490e9f2803eb3398a8edf753d5e533d90e2e97b335e090f064d005", _MULTTEST),
    "mnist_sevens.npz": File("a71afc29ed8851fa35d39bc343abe365e308b9384055c06e01fa71fc9f9d23a0", _MNIST),
    "mnist_5000.npz": File("bb6d2c61a4c70e740c499aec3630098257dfb3b9f128984c4f0afdbefeb5f947", _MNIST),
    "pbmc_facs_counts.npz": File("5ed4b5cf2b27bd4c38f683bd07f597c21df105255f6351909516beb2df78f4e3", _PBMC),
    "pbmc_facs_test_counts.npz": File(
        "12e5f786179e576cc4f85cd4b3bf018204b5f45e525854738b91fdfc41968930", _PBMC
    ),
    "pbmc_facs_meta.npz": File("2442bc835c6d6a090c77a2ed2d8aba36a532295228610c7a1eb0347df26f3319", _PBMC),
    "pbmc_facs_fastglmpca_fit.npz": File(
        "551e012458cae44e8e1a2d0c9d5213a2e7a9eca05e1095df68d619808256b8da", _PBMC
    ),
    "oaks.npz": File("618fcd8f4480bbab6e6b62b092da9e923912f03001447ae2abd20cc55351a846", _PLN),
    "trichoptera.npz": File("b45bc6f508beade63e608cfedce0eeeffb56e23a65b81caa08fd25236c6eefc2", _PLN),
    "mollusk.npz": File("4b779b739d455ae7b22f1c64f9ca60e9d551bd906009f5fb3cdb9355e37dd62d", _PLN),
    "barents.npz": File("8d2aeddd8c982e5a9bbaaaab77a832dc95c166e903ab3a2d44ebc968c74ba2c8", _PLN),
    "scRNA_mixology.npz": File("30ad0ce434f376e5d635313592f01fc5812ee15714ebb6887b620ca27777cf40", _PLN),
    "pitprops.npz": File("51cf236d6f29d456e2b795273bff81d524358a3ea11a91a7807c49a941c9bee7", _ELASTICNET),
    "pitprops_correlation.csv.gz": File(
        "edfd958184e74e12f6e92725da3e2f4cd06928c74b6de17c3037b2cb6d6e7212", _ELASTICNET
    ),
    "sms_lexicon_standin.npz": File("a2f468ee4ae00367391b1335a64eebc2447cea459b1353a8b524349d726714d1", _SMS),
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
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'anypca[datasets]'.") from error
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
