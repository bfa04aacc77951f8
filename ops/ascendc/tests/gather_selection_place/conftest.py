"""Makes what operators' tests share importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "dsa_serve"))
