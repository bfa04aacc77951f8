"""What core itself registers, by the same hook as any plugin."""

from tierkv.hookspecs import hookimpl
from tierkv.ops import NATIVE, REFERENCE
from tierkv.plain import CopyInstaller, CopyServer, TablePlanner
from tierkv.policies import (
    Arc,
    Clock,
    Fifo,
    LastStep,
    Lru,
    S3Fifo,
    SetFifo,
    SetLru,
    Sieve,
    Unbounded,
)
from tierkv.registry import Registrar
from tierkv.tiers import DeviceTier, FileTier, HostTier


@hookimpl
def tierkv_register(registry: Registrar) -> None:
    """Add the built-in components."""
    for name, tier in {"host": HostTier, "device": DeviceTier, "file": FileTier}.items():
        registry.add("tier", name, tier)
    policies = {
        "clock": Clock,
        "set-fifo": SetFifo,
        "fifo": Fifo,
        "lru": Lru,
        "set-lru": SetLru,
        "sieve": Sieve,
        "s3-fifo": S3Fifo,
        "arc": Arc,
        "last-step": LastStep,
        "unbounded": Unbounded,
    }
    for name, policy in policies.items():
        registry.add("policy", name, policy)
    registry.add("planner", "table", TablePlanner)
    registry.add("server", "copy", CopyServer)
    registry.add("installer", "copy", CopyInstaller)
    registry.add("ops", "reference", REFERENCE)
    if NATIVE is not None:
        registry.add("ops", "native", NATIVE)
