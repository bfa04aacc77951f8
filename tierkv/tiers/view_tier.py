"""Tiers whose records are plain memory."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.interfaces.tier import DONE, Ready, Tier
from tierkv.limits import Limits
from tierkv.tiers.rows import records_of


class ViewTier(Tier):
    """One [rows, stride] uint8 tensor a layer; a subclass says in which memory.

    Main memory of a cache on another device is written by that device's kernels, too: then the
    host waits for the device before it reads or writes records itself.
    """

    def __init__(self, options: Any, limits: Limits) -> None:
        self.options = options
        self.device = limits.device
        self._layers: list[Tensor] = []

    @abstractmethod
    def memory(self, rows: int, stride: int) -> Tensor:
        """Allocate one layer, [rows, stride] uint8."""

    def allocate(self, rows: Sequence[int], strides: Sequence[int]) -> None:
        layers: list[Tensor] = []  # kept only when all of them could be had
        for count, stride in zip(rows, strides, strict=True):
            layers.append(self.memory(count, stride))
        self._layers = layers

    def view(self, layer: int) -> Tensor:
        """Give a layer's records, [rows, stride] uint8."""
        return self._layers[layer]

    def read(self, layer: int, rows: Tensor, out: Tensor) -> Ready:
        records = self._settled(layer, rows)
        rows = rows.to(records.device)
        if out.device == records.device:
            torch.index_select(records, 0, rows, out=out)
        else:
            out.copy_(records.index_select(0, rows))
        return DONE

    def write(self, layer: int, rows: Tensor, records: Tensor) -> Ready:
        target = self._settled(layer, rows)
        target.index_copy_(0, rows.to(target.device), records.to(target.device))
        return DONE

    def close(self) -> None:
        self._layers = []

    def _settled(self, layer: int, rows: Tensor) -> Tensor:
        """Give a layer's records, which no kernel is writing; TierError if it lacks a row."""
        records = records_of(type(self).__name__, self._layers, layer, rows)
        if records.device.type == "cpu" and self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
        return records
