"""AscendC operators for tierkv: the backend ``ascendc`` for device ``npu``.

Importing this imports neither torch_npu nor what ``build.sh`` builds.
"""

from typing import Any

from tierkv import hookimpl
from tierkv_ascendc.ascend_ops import AscendOps


@hookimpl
def tierkv_register(registry: Any) -> None:
    """Add the backend."""
    registry.add("ops", "ascendc", AscendOps)
