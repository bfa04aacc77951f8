"""Replay of a trace under many policies, to see which one and how many slots it wants."""

from tierkv.replay.compare import Comparison, sizes_of
from tierkv.replay.contender import BELADY, UNBOUNDED, Contender
from tierkv.replay.measured import Measured

__all__ = ["BELADY", "UNBOUNDED", "Comparison", "Contender", "Measured", "sizes_of"]
