"""Synthetic traces."""

from tierkv.trace.synth.shape import Shape
from tierkv.trace.synth.synthesize import MODELS, synthesize

__all__ = ["MODELS", "Shape", "synthesize"]
