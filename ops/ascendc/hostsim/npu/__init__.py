"""A host-memory NPU: torch_npu on a machine with neither NPU nor CANN, for tests.

1. :mod:`~hostsim.npu.standins` makes CANN's shared libraries: a device in host memory (``src/``)
   and, generated, an entry that fails by name for every other symbol that torch_npu links.
2. :mod:`~hostsim.npu.fallback` makes ``libopapi.so``: plain operators are the CPU's over the same
   memory, queued like any other work, so also at each replay of a captured graph.
3. :mod:`~hostsim.npu.custom` makes ``libcust_opapi.so`` from operators' definitions;
   :class:`~hostsim.npu.kernels.KernelDriver` runs their tilings and kernels in the core model.
4. :func:`~hostsim.npu.device.load` puts all that before torch_npu, ``order`` chooses which streams
   run late. :mod:`~hostsim.npu.ge` keeps the graphs that torchair makes for GE.

Not modelled: time, bandwidth, several devices, collectives, GE itself, CANN's own operators, and
torch_npu's task queue. A write by a kernel is one step; streams do not interleave within it.
"""
