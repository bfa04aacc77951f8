"""Makes what operators' tests share importable."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("dsa_plan", "dsa_serve")]
