"""The seam: Tier, Policy, Planner, Server, Installer."""

from tierkv.interfaces.component import Component, NoOptions
from tierkv.interfaces.installer import Installer
from tierkv.interfaces.planner import Planner
from tierkv.interfaces.policy import Policy
from tierkv.interfaces.server import Server
from tierkv.interfaces.tier import DONE, Ready, SupportsView, Tier

__all__ = [
    "DONE",
    "Component",
    "Installer",
    "NoOptions",
    "Planner",
    "Policy",
    "Ready",
    "Server",
    "SupportsView",
    "Tier",
]
