"""Makes what operators' tests share importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / folder) for folder in ("gather_selection_plan", "dsa_serve")]
