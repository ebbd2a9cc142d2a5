"""Names of columns that suggest identifiers of rows or years."""

from __future__ import annotations

import re

#: Years that a name may mean.
FIRST_YEAR, LAST_YEAR = 1500, 2100


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_START = r"(^|[._\- ])"
_LABEL = _words(
    _START + r"(id|idno|idnum|pid|subj(ect)?|obs|obsno|case|caseid|caseno|rownames?|row|serial|seq|seqno|"
    r"seqn|zip|zipcode|fips|key|uid|uuid|ssn|ids|nr|rowid|postcode|plz|phone|barcode)$|[a-z]id$"
    r"|^(index|idx)$|^(zip|postal|post)[._\- ]?codes?$|^(patient|person|individual)(id|no|num|nr)?$"
    r"|(subject|respondent|participant|customer|user|case)(no|num|nr)$"
)
_NO_LABEL = _words(
    r"(covid|acid|rapid|solid|fluid|thyroid|valid|humid|grid|paid|aid|bid|mid|kid|liquid|resid)$"
)
YEAR = _words(_START + r"(year|yr|date|season|jahr|birthyear|yob|born)s?$|^(year|yr)")


def is_label(name: str) -> bool:
    """Whether a name says that its column identifies rows."""
    return bool(_LABEL.search(name)) and not _NO_LABEL.search(name)
