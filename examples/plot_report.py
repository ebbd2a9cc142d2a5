"""
A report in one file
====================

``model.report(path, X)`` writes one HTML file that answers the questions a reader has: what was in the table, how many
components and why, what they mean, where the rows lie, how good the fit is, whether it converged, and how to do it
again. The file needs no network and nothing beside it, so it can be sent by mail.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from anypca import EPCA
from anypca.datasets import load_digits_counts
from anypca.plotting import plot_scores
from anypca.report import write_report

digits = load_digits_counts()
model = EPCA(3, family="binomial(16)", ridge=30).fit(digits.X[:500])

with tempfile.TemporaryDirectory() as folder:
    path = write_report(
        model,
        Path(folder) / "report.html",
        digits.X[:500],
        feature_names=digits.feature_names,
        metadata={"digit": [str(digit) for digit in digits.target[:500]]},
        title="Handwritten digits",
    )
    text = path.read_text()
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    print("reaches out to the network:", 'src="http' in text)

# %%
# In the file the scores are interactive: hovering names a row, a menu colours by any column, a lasso lists rows.
# This is the same picture, still.

scores = model.transform(digits.X[:500])
fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
plot_scores(model, scores, color=[str(digit) for digit in digits.target[:500]], ax=ax)
plt.show()
