"""Plain operators: the CPU's results, in the order of the stream, whatever the order."""

import pytest
import torch
import torch_npu
from torch.nn import functional

NPU = "npu:0"


def _tables():
    generator = torch.Generator().manual_seed(7)
    table = torch.randint(-5, 5, (6, 8), generator=generator)
    rows = torch.tensor([3, 0, 5])
    return table, rows, torch.rand(6, 8, generator=generator)


OPERATORS = {
    "compare": lambda table, rows, x: torch.where(table > 0, table, -1),
    "count": lambda table, rows, x: (table.sum(-1), table.amax(), (table == 2).any(0)),
    "gather": lambda table, rows, x: table.gather(1, table.clamp(0, 7)),
    "index": lambda table, rows, x: (table[rows], x[rows, rows], table[:, rows]),
    "index_put": lambda table, rows, x: table.clone().index_put_((rows,), table[:3] + 1),
    "index_select": lambda table, rows, x: x.index_select(0, rows),
    "masked": lambda table, rows, x: x.masked_fill(table < 0, float("-inf")),
    "matmul": lambda table, rows, x: (x @ x.t(), torch.einsum("ij,kj->ik", x, x)),
    "norm": lambda table, rows, x: functional.layer_norm(x, (8,)),
    "attention": lambda table, rows, x: functional.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], is_causal=True
    ),
    "softmax": lambda table, rows, x: x.softmax(-1),
    "scatter": lambda table, rows, x: torch.zeros_like(x).scatter_(1, table.clamp(0, 7), x),
    "sort": lambda table, rows, x: (*x.sort(-1), *x.topk(3)),
    "unknown size": lambda table, rows, x: (table.nonzero(), table.unique(), table[table > 0]),
    "bytes": lambda table, rows, x: x.view(torch.uint8).view(6, 4, 8).flip(1).contiguous(),
    "cat": lambda table, rows, x: (torch.cat([x, x], 1), torch.stack([x, x]), x.chunk(2)[1]),
    "made": lambda table, rows, x: (
        torch.arange(5, device=x.device) * 2, torch.full((2,), 3, device=x.device),
        torch.zeros(2, 2, device=x.device), torch.eye(2, device=x.device),
    ),
    "lists": lambda table, rows, x: torch._foreach_add([x, x], 1.0),
    "written": lambda table, rows, x: torch.add(x, 1, out=torch.empty_like(x)),
}  # fmt: skip


def _flat(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.mark.parametrize("name", OPERATORS)
def test_equals_the_cpu(any_order, name):
    arguments = _tables()
    expected = _flat(OPERATORS[name](*arguments))
    got = _flat(OPERATORS[name](*(each.to(NPU) for each in arguments)))
    for one, other in zip(got, expected, strict=True):
        assert one.device.type == "npu"
        close = 1e-6 if name == "attention" else 0  # the CPU has a kernel of its own for it
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=close)


def test_gradients(any_order):
    x = torch.arange(4.0, device=NPU, requires_grad=True)
    (x * x).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.arange(4.0) * 2)


def test_values_for_the_host(any_order):
    x = torch.arange(4, device=NPU)
    assert x.sum().item() == 6
    assert x.tolist() == [0, 1, 2, 3]
    assert torch.equal(x, x.clone())
    assert bool((x >= 0).all())


def test_wrong_shapes_are_refused(any_order):
    x, y = torch.ones(3, device=NPU), torch.ones(4, device=NPU)
    with pytest.raises(RuntimeError, match="size of tensor"):
        x + y
    assert (x + 1).tolist() == [2, 2, 2]


def test_an_operator_of_cann_fails_loudly(runtime):
    x = torch.ones(4, 4, device=NPU)
    with pytest.raises(RuntimeError, match=r"no operator RmsNorm|aclnnRmsNorm"):
        torch_npu.npu_rms_norm(x, x[0])


def test_a_fault_of_queued_work_is_reported_by_the_next_wait(runtime):
    from hostsim.npu.device import Order

    x, far = torch.ones(3, device=NPU), torch.tensor([9], device=NPU)
    runtime.hostnpu_set_order(Order.LATE)
    x[far]
    with pytest.raises(RuntimeError, match=r"out of (bounds|range)"):
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_host_tensors_are_not_mixed_in(any_order):
    x, host = torch.ones(3, device=NPU), torch.ones(3)
    with pytest.raises(RuntimeError, match="expected all tensors to be on npu:0"):
        x * host
    at = torch.tensor([2], device=NPU)
    for mixed in (lambda: host[at], lambda: host.index_put_((at,), x[:1])):
        with pytest.raises(RuntimeError, match="expected all tensors to be on npu:0"):
            mixed()
    assert (x * host[0]).tolist() == [1, 1, 1]
    assert x[torch.tensor([2])].tolist() == [1]
