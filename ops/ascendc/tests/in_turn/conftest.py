"""Makes what operators' tests share importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOLDERS = ("dsa_plan", "dsa_commit", "dsa_serve", "gather_selection_plan")
sys.path += [str(TESTS / folder) for folder in FOLDERS]
