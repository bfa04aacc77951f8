"""A decode on the device, at once: inline and on a side stream, in every order of streams."""

import decoding
import pytest


@pytest.mark.parametrize("policy", ["set-fifo", "clock", "fifo"])
@pytest.mark.parametrize("queries", [1, 4])
def test_equals_the_reference(kernels, queries, policy):
    with decoding.make(queries=queries, **decoding.settings_of(policy)) as cache:
        decoding.equals_reference(cache, queries, policy)
        assert all(group.hits and group.installs for group in cache.stats().groups)
    assert {"DsaAppend", "DsaPlan", "DsaCommit", "DsaServe", "DsaInstall"} <= set(kernels.runs)
