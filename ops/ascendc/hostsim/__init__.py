"""A model of the vector cores that runs AscendC kernels and their tilings on the host.

``Kernel("dsa_plan")`` compiles an operator with the host's compiler, ``run`` tiles and runs it and
reports what would go wrong on the device. See README.md in this folder for what is modelled.
"""

from .build import NoCompilerError
from .kernel import Kernel
from .report import Costs, Fault, PipeCosts, RefusedError, Report, Tiling

__all__ = [
    "Costs",
    "Fault",
    "Kernel",
    "NoCompilerError",
    "PipeCosts",
    "RefusedError",
    "Report",
    "Tiling",
]
