"""What every tier owes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tierkv.errors import CapacityError, TierError
from tierkv.interfaces import SupportsView, Tier
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.testing.harness import Harness
from tierkv.testing.workload import Workload


class TierContract:
    """Derive a test class and say what to make: ``class TestMine(TierContract): make = Mine``."""

    make: ClassVar[type[Tier]]
    options: ClassVar[Mapping[str, Any]] = {}
    """Fields of ``make.Options``."""
    rows: ClassVar[tuple[int, ...]] = (40, 24)
    strides: ClassVar[tuple[int, ...]] = (64, 96)

    def tier(self) -> Tier:
        """Make one that has not been allocated."""
        make: Any = self.make
        tier: Tier = make(make.Options(**self.options), Shape().limits)
        return tier

    @contextmanager
    def allocated(self) -> Iterator[Tier]:
        """Make one, allocated and closed again."""
        tier = self.tier()
        tier.allocate(self.rows, self.strides)
        try:
            yield tier
        finally:
            tier.close()

    def records(self, layer: int, count: int, seed: int = 0) -> Tensor:
        """Draw records of a layer."""
        generator = torch.Generator().manual_seed(seed)
        shape = (count, self.strides[layer])
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)

    def read(self, tier: Tier, layer: int, rows: list[int]) -> Tensor:
        """Read rows into a buffer of wrong bytes."""
        out = torch.full((len(rows), self.strides[layer]), 0xA5, dtype=torch.uint8)
        tier.read(layer, torch.tensor(rows, dtype=torch.int64), out).wait()
        return out

    def write(self, tier: Tier, layer: int, rows: list[int], records: Tensor) -> None:
        """Write rows and wait."""
        tier.write(layer, torch.tensor(rows, dtype=torch.int64), records).wait()

    def test_a_read_sees_every_write(self) -> None:
        with self.allocated() as tier:
            whole = [self.records(layer, count, layer) for layer, count in enumerate(self.rows)]
            for layer, records in enumerate(whole):
                self.write(tier, layer, list(range(len(records))), records)
            for layer, records in enumerate(whole):
                assert torch.equal(self.read(tier, layer, list(range(len(records)))), records)

    def test_a_rewritten_row_is_read_new_and_others_stay(self) -> None:
        with self.allocated() as tier:
            old, new = self.records(0, self.rows[0], 1), self.records(0, 3, 2)
            every = list(range(self.rows[0]))
            self.write(tier, 0, every, old)
            assert torch.equal(self.read(tier, 0, every), old)
            for place, row in enumerate((7, 0, self.rows[0] - 1)):
                self.write(tier, 0, [row], new[place : place + 1])
                old[row] = new[place]
                assert torch.equal(self.read(tier, 0, every), old)

    def test_rows_come_in_the_order_asked_and_as_often(self) -> None:
        with self.allocated() as tier:
            records = self.records(1, self.rows[1])
            self.write(tier, 1, list(range(self.rows[1]))[::-1], records.flip(0))
            rows = [5, 5, 0, self.rows[1] - 1, 5]
            assert torch.equal(self.read(tier, 1, rows), records[rows])

    def test_no_rows_are_fine(self) -> None:
        with self.allocated() as tier:
            self.write(tier, 0, [], self.records(0, 0))
            assert len(self.read(tier, 0, [])) == 0

    @pytest.mark.parametrize("bad", [-1, 40, 41_000, 2**40])
    def test_a_read_out_of_range_names_the_row(self, bad: int) -> None:
        with self.allocated() as tier, pytest.raises(TierError, match=rf"(?<!\d){bad}\b"):
            self.read(tier, 0, [3, bad])

    @pytest.mark.parametrize("bad", [-1, 40, 41_000, 2**40])
    def test_a_write_out_of_range_names_the_row_and_writes_nothing(self, bad: int) -> None:
        with self.allocated() as tier:
            every, records = list(range(self.rows[0])), self.records(0, self.rows[0])
            self.write(tier, 0, every, records)
            with pytest.raises(TierError, match=rf"(?<!\d){bad}\b"):
                self.write(tier, 0, [3, bad], self.records(0, 2, seed=9))
            assert torch.equal(self.read(tier, 0, every), records)

    @pytest.mark.parametrize("layer", [-1, 2])
    def test_an_unknown_layer_is_refused(self, layer: int) -> None:
        with self.allocated() as tier:
            out = torch.empty((1, self.strides[0]), dtype=torch.uint8)
            with pytest.raises(TierError, match=f"layer {layer}"):
                tier.read(layer, torch.zeros(1, dtype=torch.int64), out).wait()

    def test_it_may_be_closed_twice_or_unallocated(self) -> None:
        tier = self.tier()
        tier.close()
        tier.allocate(self.rows, self.strides)
        tier.close()
        tier.close()

    def test_nothing_can_be_read_or_written_outside_of_its_life(self) -> None:
        closed = self.tier()
        closed.allocate(self.rows, self.strides)
        closed.close()
        for tier in (self.tier(), closed):
            with pytest.raises(TierError):
                self.read(tier, 0, [0])
            with pytest.raises(TierError):
                self.write(tier, 0, [0], self.records(0, 1))

    def test_a_refused_allocation_leaves_nothing(self) -> None:
        tier, before = self.tier(), _open_files()
        with pytest.raises((CapacityError, TierError)):
            tier.allocate((8, 2**50), self.strides)
        assert _open_files() == before
        with pytest.raises(TierError):
            self.read(tier, 0, [0])
        tier.allocate(self.rows, self.strides)
        tier.close()

    def test_closing_gives_files_back(self) -> None:
        before = _open_files()
        with self.allocated():
            pass
        assert _open_files() == before

    def test_two_of_it_share_nothing(self) -> None:
        with self.allocated() as one, self.allocated() as other:
            records = [self.records(0, self.rows[0], seed) for seed in (1, 2)]
            every = list(range(self.rows[0]))
            self.write(one, 0, every, records[0])
            self.write(other, 0, every, records[1])
            assert torch.equal(self.read(one, 0, every), records[0])

    def test_a_view_is_the_records_themselves(self) -> None:
        with self.allocated() as tier:
            if not isinstance(tier, SupportsView):
                return
            records = self.records(1, self.rows[1])
            view = tier.view(1)
            assert view.shape == (self.rows[1], self.strides[1])
            view.copy_(records)
            assert torch.equal(self.read(tier, 1, list(range(self.rows[1]))), records)
            self.write(tier, 1, [4], self.records(1, 1, seed=5))
            assert torch.equal(view[4:5].cpu(), self.records(1, 1, seed=5))

    def test_a_cache_on_it_serves_what_the_model_serves(self) -> None:
        shape = Shape()
        with assemble(shape, backing=choice(self.make, self.options)) as cache:
            Workload(Harness(cache), shape, seed=3).run(40)


def _open_files() -> int:
    """Count open file descriptors, where the system shows them."""
    here = Path("/proc/self/fd")
    return len(os.listdir(here)) if here.exists() else 0
