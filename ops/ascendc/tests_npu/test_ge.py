"""The graph that GE gets of a step: operators, streams, and the order of accesses to buffers."""

import itertools

import decoding
import pytest
import torch
from decoding import equals_reference, forward, make
from hostsim.npu import ge

LAYERS, GROUPS = len(decoding.TYPES), len(decoding.OWNERS)
OURS = ("DsaAppend", "DsaPlan", "DsaCommit", "DsaServe", "DsaInstall")
SETTINGS = {"ops": {"use": "ascendc", "mode": "ge_graph"}}
pytestmark = pytest.mark.usefixtures("compilers", "collected")
SIDE = {"installer": {"schedule": "side-stream"}}


class Order:
    """What runs before what, and who accesses which input of the graph.

    An output named like an input is the same memory.
    """

    def __init__(self, proto, without=None):
        """Leave out the edge `without`, (from, to)."""
        self.ops = {op.name: op for op in proto.op}
        self.controls = sorted(
            (source.split(":")[0], op.name)
            for op in proto.op for source in op.input if source.endswith(":-1")
        )  # fmt: skip
        self.before = {name: set() for name in self.ops}
        for op in proto.op:  # in order of creation: sources come first
            for source in op.input:
                name = source.split(":")[0]
                cut = without == (name, op.name) and source.endswith(":-1")
                if source and not cut:
                    self.before[op.name] |= {name} | self.before[name]

    def _memory(self, tensor):
        """Give the input of the graph that a tensor is, or itself."""
        name, _, index = tensor.partition(":")
        op = self.ops[name]
        if op.type == "Data":
            return name
        written = op.output_desc[int(index)].name if op.type in OURS else ""
        for desc, source in zip(op.input_desc, op.input, strict=False):
            if desc.name == written and source:
                return self._memory(source)
        return tensor

    def accesses(self):
        """Input of the graph -> (operator, whether it writes), each."""
        found = {}
        for op in self.ops.values():
            if op.type in ("Data", "NetOutput"):
                continue
            results = {desc.name for desc in op.output_desc} if op.type in OURS else set()
            for desc, source in zip(op.input_desc, op.input, strict=False):
                if source and not source.endswith(":-1"):
                    memory = self._memory(source)
                    found.setdefault(memory, []).append((op.name, desc.name in results))
        return {memory: who for memory, who in found.items() if ":" not in memory}

    def unordered(self):
        """Pairs of operators on one input of the graph, of which one writes, in either order."""
        return [
            (memory, one, other)
            for memory, who in self.accesses().items()
            for (one, writes), (other, also) in itertools.combinations(who, 2)
            if (writes or also) and one != other
            and one not in self.before[other] and other not in self.before[one]
        ]  # fmt: skip


def converted(run, *arguments):
    """Convert, and run eagerly; give the graph."""
    with ge.captured() as graphs:
        compiled = torch.compile(run, backend=ge.backend(), dynamic=False, fullgraph=True)
        result = compiled(*arguments)
    (graph,) = graphs
    return graph, result


def of_a_step(**settings):
    """Convert a step of the decode; what it gives is right."""
    with ge.captured() as graphs, make(queries=4, **SETTINGS | settings) as cache:
        compiled = torch.compile(forward, backend=ge.backend(), dynamic=False, fullgraph=True)
        run = lambda step, decode: compiled(step, decode.new, decode.ids)  # noqa: E731
        equals_reference(cache, 4, run=run, count=3)
    (graph,) = graphs
    return graph


@pytest.fixture(scope="module")
def inline(compilers, kernels):
    return of_a_step()


@pytest.fixture(scope="module")
def beside(compilers, kernels):
    return of_a_step(**SIDE)


@pytest.fixture(params=["inline", "beside"])
def graph(request):
    return request.getfixturevalue(request.param)


def labels(graph):
    """Types of the operators on each stream."""
    found = {}
    for op in graph.proto.op:
        label = op.attr["_user_stream_label"].s.decode() if "_user_stream_label" in op.attr else ""
        if op.type in OURS:
            found.setdefault(label, set()).add(op.type)
    return found


def test_operators_of_a_step(graph):
    counts = {name: graph.types.count(name) for name in OURS}
    # A layer's records, and the indexer's keys of each owner.
    assert counts == {
        "DsaAppend": LAYERS + GROUPS, "DsaPlan": GROUPS, "DsaCommit": GROUPS,
        "DsaServe": LAYERS, "DsaInstall": LAYERS,
    }  # fmt: skip


def test_streams(inline, beside):
    assert labels(inline) == {"": set(OURS)}
    assert labels(beside) == {
        "": {"DsaAppend", "DsaPlan", "DsaServe"}, "tierkv": {"DsaCommit", "DsaInstall"},
    }  # fmt: skip


def test_nothing_is_copied(graph):
    assert not {"TensorMove", "Assign", "AsStrided", "ViewCopy"} & set(graph.types)


def test_what_is_written_is_an_input_of_the_graph(graph):
    """Pools, backing, tables: in place; all of them come back as outputs that are these inputs."""
    order = Order(graph.proto)
    written = {memory for memory, who in order.accesses().items() if any(w for _, w in who)}
    kept = 2 * LAYERS + GROUPS + LAYERS  # fresh and backing, keys, pools
    tables = GROUPS * 4  # slot_of, id_at, hand, counters
    assert len(written) == kept + tables
    index = {op.name: op.attr["index"].i for op in graph.proto.op if op.type == "Data"}
    assert {index[name] for name in written} <= graph.written_inputs


def test_every_two_accesses_are_ordered(graph):
    assert Order(graph.proto).unordered() == []


def test_the_graph_ends_after_the_side_stream(beside):
    (end,) = (op.name for op in beside.proto.op if op.type == "NetOutput")
    side = {op.name for op in beside.proto.op if op.type in ("DsaCommit", "DsaInstall")}
    assert side <= Order(beside.proto).before[end]


REDUNDANT = {
    ("DsaPlan", "DsaCommit"): "it places what the plan lists",
    ("DsaServe", "DsaInstall"): "it copies from what was served",
}
"""Control edges beside a path of data, with what goes along that path. They say the rule: whoever
read the buffer goes first."""


def test_control_edges(graph):
    """Those of the rules, no others; each is needed, or its reason stands above."""
    order = Order(graph.proto)
    kinds = [(order.ops[one].type, order.ops[other].type) for one, other in order.controls]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        ("DsaPlan", "DsaCommit"): GROUPS, ("DsaServe", "DsaInstall"): LAYERS,
    }  # fmt: skip
    for edge, kind in zip(order.controls, kinds, strict=True):
        needed = bool(Order(graph.proto, without=edge).unordered())
        assert needed != (kind in REDUNDANT), edge


def test_a_reader_of_the_model_s_own_goes_before_the_writer(kernels):
    """Keys are looked at, then the step appends to them: only the control edge orders the two."""

    def run(step, new, keys):
        sum_before = (step.part(0, "indexer") if keys is None else keys).sum()
        for layer in (0, 1):
            step.append(layer, new[layer])
            step.select(layer, decode.ids[0] if layer == 0 else None)
        return sum_before

    with make(queries=1, **SETTINGS) as cache:
        decode = decoding.Decode(cache, 1)
        (name,) = cache.store.device[0]
        keys = cache.store.device[0][name].fill_(1)
        with decode.begin() as step:
            graph, _ = converted(run, step, decode.new, keys)
    order = Order(graph.proto)
    assert order.unordered() == []
    (edge,) = [
        (one, other) for one, other in order.controls
        if order.ops[one].type not in OURS and order.ops[other].type == "DsaAppend"
    ]  # fmt: skip
    assert Order(graph.proto, without=edge).unordered()


def test_parts_beside_each_other_are_refused(kernels):
    def run(step, new):
        for name, rows in new[0].items():
            step.append(0, {name: rows})

    with make(queries=1, **SETTINGS) as cache:
        decode = decoding.Decode(cache, 1)
        with (
            ge.captured(),
            pytest.raises(Exception, match=r"tiered parts come together"),
            decode.begin() as step,
        ):
            torch.compile(run, backend=ge.backend(), dynamic=False, fullgraph=True)(
                step, decode.new
            )
