"""Plain implementations of Planner, Server and Installer, for any policy and tier."""

from tierkv.plain.copy_installer import CopyInstaller
from tierkv.plain.copy_server import CopyServer
from tierkv.plain.table_planner import TablePlanner

__all__ = ["CopyInstaller", "CopyServer", "TablePlanner"]
