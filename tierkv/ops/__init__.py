"""Operators: ``torch.ops.tierkv``, the best built, and ``torch.ops.tierkv_reference``.

Importing this package registers them. A cache holds one :class:`Ops`, so two caches in a process
may use different backends.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import torch

from tierkv.ops import reference
from tierkv.ops.schemas import SCHEMAS

Operator = Callable[..., None]


class Ops:
    """The operators of one backend, as attributes named like the schemas."""

    append: Operator
    plan: Operator
    serve: Operator
    plan_gather: Operator
    place_gather: Operator
    gather: Operator
    install: Operator
    submit: Operator
    submit_install: Operator
    wait: Operator

    def __init__(
        self,
        name: str,
        namespace: str,
        prepare: Callable[[], None] = lambda: None,
        start_worker: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.prepare = prepare
        """Does what must not happen in a step; called when a cache is built."""
        self.start_worker = start_worker
        """Starts the thread behind ``submit``; None if there is none and it runs at once."""
        packets = getattr(torch.ops, namespace)
        for operator in SCHEMAS:
            setattr(self, operator, getattr(packets, operator).default)

    def place(self, policy: str) -> Operator:
        """Give the placement operator of a built-in policy."""
        operator: Operator = getattr(self, f"place_{policy.replace('-', '_')}")
        return operator


def _register(namespace: str) -> torch.library.Library:
    library = torch.library.Library(namespace, "FRAGMENT")
    for name, schema in SCHEMAS.items():
        library.define(name + schema)
        library.impl(name, getattr(reference, name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{namespace}::{name}", lambda *_: None, lib=library)
    return library


LIBRARIES = {name: _register(name) for name in ("tierkv", "tierkv_reference")}
"""Kept alive: an operator lives as long as the library that defined it."""

REFERENCE = Ops("reference", "tierkv_reference")


def _native() -> Ops | None:
    if find_spec("tierkv._native") is None:  # installed without a compiler
        return None
    native = import_module("tierkv.ops.native")
    native.register(LIBRARIES["tierkv"])
    return Ops("native", "tierkv", native.reserve_threads, native.start_worker)


NATIVE = _native()
"""The compiled CPU operators; None where the package was installed without a compiler."""
