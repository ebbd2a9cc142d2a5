"""``python -m anypca`` is the command ``anypca``."""

from __future__ import annotations

import sys

from anypca.cli import main

if __name__ == "__main__":
    sys.exit(main())
