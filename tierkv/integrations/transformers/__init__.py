"""Hugging Face transformers as the model code.

``tiered_cache(model, "glm52.yaml")`` gives a cache to hand to ``model.generate``.
"""

from tierkv.integrations.transformers.cache import TieredDynamicCache
from tierkv.integrations.transformers.compare import Comparison, compare
from tierkv.integrations.transformers.library import CACHE_ARGUMENT
from tierkv.integrations.transformers.make import tiered_cache
from tierkv.integrations.transformers.model import build_model

__all__ = [
    "CACHE_ARGUMENT",
    "Comparison",
    "TieredDynamicCache",
    "build_model",
    "compare",
    "tiered_cache",
]
