"""Makes what the row movers' tests share importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "dsa_serve"))
