"""Hugging Face transformers as the model code.

``tiered_cache(model, "glm52.yaml")`` gives a cache to hand to ``model.generate``,
``serving_cache(model, "glm52.yaml")`` one for a loop that serves many requests.
"""

from tierkv.integrations.transformers.cache import TieredDynamicCache
from tierkv.integrations.transformers.compare import Comparison, compare
from tierkv.integrations.transformers.library import CACHE_ARGUMENT
from tierkv.integrations.transformers.make import serving_cache, tiered_cache
from tierkv.integrations.transformers.model import build_model
from tierkv.integrations.transformers.serving_cache import ServingCache

__all__ = [
    "CACHE_ARGUMENT",
    "Comparison",
    "ServingCache",
    "TieredDynamicCache",
    "build_model",
    "compare",
    "serving_cache",
    "tiered_cache",
]
