"""How benchmarks that compare figures with targets end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def conclude(report: dict[str, Any], path: Path | None) -> int:
    """Print a report, write it to a file if one is given; 1 if it says that targets are missed."""
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if path is not None:
        path.write_text(text + "\n", encoding="utf-8")
    return 1 if report["missed"] else 0
