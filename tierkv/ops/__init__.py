"""Operators: ``torch.ops.tierkv``, the best built, and ``torch.ops.tierkv_reference``.

Importing this package registers them. A cache holds one :class:`Ops`, so two caches in a process
may use different backends.
"""

from importlib import import_module
from importlib.util import find_spec

import torch

from tierkv.ops import reference
from tierkv.ops.ops import Operator, Ops
from tierkv.ops.schemas import SCHEMAS

__all__ = ["LIBRARIES", "NATIVE", "REFERENCE", "Operator", "Ops"]


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
    return Ops(
        "native", "tierkv", native.reserve_threads, native.start_worker, ("cpu",), native.direct()
    )


NATIVE = _native()
"""The compiled CPU operators; None where the package was installed without a compiler."""
