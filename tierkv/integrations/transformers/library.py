"""What is taken from transformers, and which releases of it will do."""

from importlib import metadata

from tierkv.errors import LibraryError, say
from tierkv.integrations.releases import ABOVE, LOWEST, numbers


def _installed() -> tuple[int, ...]:
    do = "pip install 'tierkv[transformers]'"
    try:
        version = metadata.version("transformers")
    except metadata.PackageNotFoundError:
        raise LibraryError(say("transformers", "is not installed", do=do)) from None
    if not LOWEST <= numbers(version) < ABOVE:
        wanted = f"must be at least {LOWEST[0]}.{LOWEST[1]} and below {ABOVE[0]}"
        raise LibraryError(say("transformers", wanted, got=version, do=do))
    return numbers(version)


VERSION = _installed()
CACHE_ARGUMENT = "cache" if VERSION >= (5, 24) else "past_key_values"
"""What ``forward`` and ``generate`` call the cache."""

from transformers import (  # noqa: E402
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicIndexedLayer  # noqa: E402
from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: E402
from transformers.masking_utils import sdpa_mask  # noqa: E402

__all__ = [
    "CACHE_ARGUMENT",
    "VERSION",
    "AttentionInterface",
    "AttentionMaskInterface",
    "AutoConfig",
    "AutoModelForCausalLM",
    "DynamicCache",
    "DynamicIndexedLayer",
    "PreTrainedModel",
    "sdpa_attention_forward",
    "sdpa_mask",
]
