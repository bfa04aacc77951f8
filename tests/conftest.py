"""One thread, and the same examples every time."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("tierkv", derandomize=True, deadline=None, database=None)
settings.load_profile("tierkv")
