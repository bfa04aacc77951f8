"""Replay of a trace under many policies: which one, how many slots?"""

from tierkv.replay.compare import Comparison, sizes_of
from tierkv.replay.contender import BELADY, UNBOUNDED, Contender
from tierkv.replay.measured import Measured

__all__ = ["BELADY", "UNBOUNDED", "Comparison", "Contender", "Measured", "sizes_of"]
