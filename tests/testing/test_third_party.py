"""A whole third-party policy and its whole test, as the documentation promises them."""

import torch

import tierkv
import tierkv.testing


class Mru(tierkv.TablePolicy):
    """Keeps who came first."""

    def choose(self, lane, misses, hits):
        free = torch.nonzero(self.id_at[lane] < 0).flatten()
        return torch.cat([free, torch.full_like(misses, -1)])[: len(misses)]


class TestMru(tierkv.testing.PolicyContract):
    make = Mru
