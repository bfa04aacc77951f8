"""Continuous batching over a transformers model: requests come and go, in too little memory.

A server loop runs 64 requests, at most 8 at once. They have mixed lengths, some start alike, and
drafts looked up in their own tokens are verified along the way. The backing is too small for 8, so
requests are preempted and run again later. A small random model; every answer must equal what the
stock model gives for the request alone, or the exit status is 1.
"""

import argparse
import time
from collections import deque
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache

from tierkv import CapacityError
from tierkv.integrations.transformers import CACHE_ARGUMENT, build_model, serving_cache

MODEL = {
    "family": "glm_moe_dsa", "seed": 0, "dtype": "float32", "vocab_size": 64, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 4, "first_k_dense_replace": 4,
    "indexer_types": ["full", "shared", "full", "full"], "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 32, "q_lora_rank": 32, "kv_lora_rank": 64,
    "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32, "n_group": 1,
    "topk_group": 1, "index_topk": 32, "index_n_heads": 32, "index_head_dim": 64,
}  # fmt: skip
SETTINGS = {
    "scheme": "glm52-indexshare",
    "backing": {"use": "host", "page": 16, "capacity": "1MiB"},
    "pool": {"slots": 128},
    "policy": "lru",
    "installer": {"schedule": "worker"},
}
RUNNING, LONGEST, CHUNK, DRAFTS, NGRAM = 8, 320, 64, 3, 2


@dataclass(eq=False)
class Request:
    """A prompt, and the answer so far."""

    name: str
    tokens: list[int]
    wanted: int
    """Tokens of prompt and answer."""
    held: int = 0
    """Leading tokens that the cache holds."""
    prompt: int = field(init=False)

    def __post_init__(self):
        self.prompt = len(self.tokens)

    @property
    def done(self):
        return len(self.tokens) == self.wanted

    def drafts(self, most):
        """Give what followed the last tokens when they last occurred before."""
        for at in range(len(self.tokens) - NGRAM - 1, -1, -1):
            if self.tokens[at : at + NGRAM] == self.tokens[-NGRAM:]:
                return self.tokens[at + NGRAM : at + NGRAM + most]
        return []


class Server:
    """Runs requests in the order they came; under pressure the youngest waits again."""

    def __init__(self, model, cache, requests):
        self.model, self.cache = model, cache
        self.waiting, self.running = deque(requests), []
        self.full = False
        """From a preemption until a request ends: others would only push each other out."""
        self.counts = dict.fromkeys(("preemptions", "shared", "prefilled", "drafts", "accepted"), 0)

    def run(self):
        while self.waiting or self.running:
            self.admit()
            prompts = [one for one in self.running if len(one.tokens) - one.held > 1 + DRAFTS]
            if prompts:
                self.prefill(prompts)
            else:
                self.decode()

    def admit(self):
        """Let requests in while there is room, their shared prefixes done already."""
        while self.waiting and not self.full:
            request = self.waiting[0]
            try:
                request.held = self.cache.admit(request.name, request.tokens)
            except CapacityError:
                if self.running:
                    return
                raise
            self.counts["shared"] += request.held
            self.running.append(self.waiting.popleft())

    def prefill(self, requests):
        """Run a chunk of each prompt."""
        fed = [one.tokens[one.held : one.held + CHUNK] for one in requests]
        self.counts["prefilled"] += sum(map(len, fed))
        self.forward(requests, fed)

    def decode(self):
        """Run a step of as many requests as there is room for."""
        while True:
            fed = []
            for one in self.running:
                rest = one.tokens[one.held :]
                fed.append(rest + one.drafts(min(1 + DRAFTS, one.wanted - one.held) - len(rest)))
            try:
                return self.forward(list(self.running), fed)
            except CapacityError:
                if len(self.running) == 1:
                    raise
                self.preempt()

    def preempt(self):
        """Release the youngest; it keeps its answer so far and comes next."""
        request = self.running.pop()
        self.cache.release(request.name)
        self.waiting.appendleft(request)
        self.counts["preemptions"] += 1
        self.full = True

    def forward(self, requests, fed):
        """Run new tokens of some requests, and keep what the model agrees with."""
        starts = [one.held for one in requests]
        inputs = self.cache.batch([one.name for one in requests], starts, fed)
        logits = self.model(**inputs).logits
        for row, (request, tokens) in enumerate(zip(requests, fed, strict=True)):
            self.verify(request, tokens, logits[row, -len(tokens) :].argmax(-1).tolist())
            if request.done:
                self.running.remove(request)
                self.cache.release(request.name)
                self.full = False

    def verify(self, request, fed, chosen):
        """Take the drafts that equal the model's choices, and the choice after them."""
        known = min(len(request.tokens) - request.held, len(fed))
        drafts = fed[known:]
        request.held += known
        if request.held < len(request.tokens):
            return  # within the prompt
        self.counts["drafts"] += len(drafts)
        for choice, draft in zip(chosen[known - 1 :], [*drafts, None], strict=True):
            request.tokens.append(choice)
            if choice != draft or request.done:
                return
            request.held += 1
            self.counts["accepted"] += 1


def workload(count):
    """Make prompts of 20 to 220 tokens, half of which start with one of three prefixes."""
    generator = torch.Generator().manual_seed(0)

    def number(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    def tokens(length):
        return torch.randint(MODEL["vocab_size"], (length,), generator=generator).tolist()

    prefixes = [tokens(length) for length in (48, 80, 144)]
    requests = []
    for index in range(count):
        prefix = prefixes[number(0, 3)] if number(0, 2) else []
        prompt = prefix + tokens(number(20, 76))
        requests.append(Request(f"request {index}", prompt, len(prompt) + number(8, 33)))
    return requests


def alone(model, request):
    """Give the request's tokens as the stock model answers it by itself."""
    cache, tokens = DynamicCache(config=model.config), list(request.tokens)
    new = tokens
    while len(tokens) < request.wanted:
        logits = model(torch.tensor([new]), **{CACHE_ARGUMENT: cache}, use_cache=True).logits
        new = [int(logits[0, -1].argmax())]
        tokens += new
    return tokens


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=64)
    requests = workload(parser.parse_args().requests)
    model = build_model(MODEL, LONGEST)
    model.set_attn_implementation("sdpa")
    expected = {request.name: alone(model, request) for request in requests}
    with serving_cache(
        model, SETTINGS, requests=RUNNING, max_tokens=LONGEST, queries=1 + DRAFTS
    ) as cache:
        server = Server(model, cache, requests)
        start = time.perf_counter()
        server.run()
        seconds = time.perf_counter() - start
        stats = cache.tiered.stats()
    equal = sum(request.tokens == expected[request.name] for request in requests)
    answered = sum(request.wanted - request.prompt for request in requests)
    counts = server.counts
    print(f"throughput      {answered / seconds:,.0f} tokens/s, {answered:,} in {seconds:.1f} s")
    print(f"hit rate        {stats.hit_rate:.1%}")
    print(f"preemptions     {counts['preemptions']:,}")
    print(f"shared tokens   {counts['shared']:,}, prefilled {counts['prefilled']:,}")
    print(f"drafts          {counts['accepted']:,} of {counts['drafts']:,} accepted")
    print(f"equal outputs   {equal:,} of {len(requests):,}")
    return 0 if equal == len(requests) else 1


if __name__ == "__main__":
    torch.set_num_threads(1)  # so small a model is slower with more
    raise SystemExit(main())
