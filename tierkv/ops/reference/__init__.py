"""The executable specification: plain torch, any device, readable first. See docs/semantics.md."""

from tierkv.ops.reference.gather import gather, place_gather, plan_gather
from tierkv.ops.reference.move import append, install, serve
from tierkv.ops.reference.place_arc import place_arc
from tierkv.ops.reference.place_clock import place_clock
from tierkv.ops.reference.place_last_step import place_last_step
from tierkv.ops.reference.place_lru import place_lru
from tierkv.ops.reference.place_s3_fifo import place_s3_fifo
from tierkv.ops.reference.place_set_fifo import place_set_fifo
from tierkv.ops.reference.place_set_lru import place_set_lru
from tierkv.ops.reference.place_sieve import place_sieve
from tierkv.ops.reference.place_unbounded import place_unbounded
from tierkv.ops.reference.plan import plan
from tierkv.ops.reference.worker import submit, submit_install, wait

__all__ = [
    "append",
    "gather",
    "install",
    "place_arc",
    "place_clock",
    "place_gather",
    "place_last_step",
    "place_lru",
    "place_s3_fifo",
    "place_set_fifo",
    "place_set_lru",
    "place_sieve",
    "place_unbounded",
    "plan",
    "plan_gather",
    "serve",
    "submit",
    "submit_install",
    "wait",
]
