"""Name the platform of a wheel that has the extension."""

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    """The extension is for one platform, and for any Python: it uses PyTorch's C++ alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if (Path(self.root) / "tierkv_ascendc" / "_torch.so").exists():
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"
