"""The device, its memory and copies."""

import pytest
import torch
import torch_npu


def test_device_is_known():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 1
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name() == "Ascend910B1"
    assert (properties.cube_core_num, properties.vector_core_num) == (24, 48)
    with pytest.raises(RuntimeError, match="device"):
        torch.npu.set_device(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_copies_go_there_and_back(any_order, dtype):
    there = torch.arange(24).reshape(4, 6).to(dtype)
    device = there.to("npu:0")
    assert device.device == torch.device("npu:0")
    assert torch.equal(device.cpu(), there)
    assert torch.equal(device.t().contiguous().cpu(), there.t())
    assert torch.equal(device[::2, 1:4].cpu(), there[::2, 1:4])
    assert torch.equal(device.to(torch.float32).cpu(), there.to(torch.float32))
    target = torch.zeros(6, 4, dtype=dtype, device="npu:0")
    target.t().copy_(device)
    assert torch.equal(target.cpu(), there.t())


def test_host_tensor_of_other_layout_and_type(any_order):
    target = torch.zeros(3, 2, device="npu:0")
    source = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    target.copy_(source.t())
    assert torch.equal(target.cpu(), source.t().float())


def test_fresh_memory_is_poisoned(runtime):
    words = torch.empty(1 << 22, dtype=torch.int32, device="npu:0")
    assert (words.cpu() == -0x34343435).all()


def test_pinned_memory(any_order):
    host = torch.empty(8, pin_memory=True)
    assert host.is_pinned()
    assert torch.ones(3).pin_memory().is_pinned()
    assert not torch.ones(3).is_pinned()
    host.fill_(3)
    device = host.to("npu:0", non_blocking=True)
    back = torch.empty(8, pin_memory=True).copy_(device, non_blocking=True)
    torch.npu.synchronize()
    assert (back == 3).all()


@pytest.mark.parametrize("rows", [1, 31, 1280])
def test_swapped_memory_lies_in_its_block(runtime, rows):
    """torch_npu rounds the address up to a page; memory that starts within one would end behind."""
    for _ in range(4):
        swapped = torch_npu.empty_with_swapped_memory(
            (rows, 160), dtype=torch.uint8, device="npu:0"
        )
        assert swapped.data_ptr() % 4096 == 0
        assert runtime.hostnpu_on_device(swapped.data_ptr(), swapped.nbytes)
        swapped.copy_(torch.ones_like(swapped))
        assert bool((swapped == 1).all())


def test_swapped_memory(any_order):
    swapped = torch_npu.empty_with_swapped_memory([4, 8], dtype=torch.float32, device="npu:0")
    assert swapped.device.type == "npu"
    swapped.copy_(torch.arange(32.0).reshape(4, 8))
    assert torch.equal((swapped + 1).cpu(), torch.arange(32.0).reshape(4, 8) + 1)


def test_addresses_are_known(runtime):
    device = torch.zeros(16, device="npu:0")
    swapped = torch_npu.empty_with_swapped_memory([16], dtype=torch.float32, device="npu:0")
    for tensor in (device, swapped):
        assert runtime.hostnpu_on_device(tensor.data_ptr(), 64)
    assert not runtime.hostnpu_on_device(torch.zeros(16).data_ptr(), 64)


def test_freed_memory_is_given_back(runtime):
    before = torch.npu.memory_allocated()
    big = torch.zeros(1 << 20, device="npu:0")
    assert torch.npu.memory_allocated() > before
    del big
    assert torch.npu.memory_allocated() == before
    torch.npu.empty_cache()


def test_device_is_full():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 40, dtype=torch.uint8, device="npu:0")
