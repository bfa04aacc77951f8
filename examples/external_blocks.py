"""An engine that pages by itself puts tierkv between its records and its attention.

The engine below keeps whole pages of records in memory of its own, hands them to requests from a
free list and writes them itself. tierkv only sees its block table: it plans, serves and installs.
Every selection is compared with the engine's own records; the last line says how it went.
"""

import torch

import tierkv

PAGE, PAGES, LANES, QUERIES, TOP_K = 16, 64, 4, 2, 32
LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 64, torch.float32), tierkv.Part("rope", 8, torch.float32))
)
SPEC = tierkv.ModelSpec.uniform("engine", TOP_K, [[0], [1, 2]], LAYOUT)
LAYERS = len(SPEC.layouts)


class Engine:
    """Pages, block tables and records, as a serving engine has them."""

    def __init__(self):
        shape = (PAGES * PAGE, LAYOUT.stride)
        self.records = [torch.zeros(shape, dtype=torch.uint8) for _ in range(LAYERS)]
        self.free = list(range(PAGES))
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def rows(self, request, start, stop):
        """Give the rows of positions `start` to `stop`, with new pages where needed."""
        table = self.tables.setdefault(request, [])
        while len(table) * PAGE < stop:
            table.append(self.free.pop())
        return torch.tensor([table[at // PAGE] * PAGE + at % PAGE for at in range(start, stop)])

    def extend(self, request, tokens):
        """Write random records of `tokens` new positions in every layer."""
        start = self.lengths.get(request, 0)
        rows = self.rows(request, start, start + tokens)
        for records in self.records:
            records[rows] = torch.randint(0, 255, (tokens, LAYOUT.stride), dtype=torch.uint8)
        self.lengths[request] = start + tokens

    def finish(self, request):
        self.free += self.tables.pop(request)
        del self.lengths[request]

    def block_table(self, requests):
        width = max(len(self.tables[request]) for request in requests)
        rows = [self.tables[r] + [-1] * (width - len(self.tables[r])) for r in requests]
        return torch.tensor(rows, dtype=torch.int32)


def decode(engine, cache, lanes, requests):
    """Step a batch once; give how many selections differ from the engine's records."""
    wrong = 0
    for request in requests:
        engine.extend(request, QUERIES)
    kv_len = [engine.lengths[request] for request in requests]
    step = cache.stepper_for(len(requests), QUERIES).begin(
        [lanes[request] for request in requests], kv_len, block_table=engine.block_table(requests)
    )
    with step:
        for layer in range(LAYERS):
            step.append(layer, None)  # the engine has written them
            ids = torch.randint(-1, min(kv_len), (len(requests), QUERIES, TOP_K)).int()
            selection = step.select(layer, ids if layer in (0, 1) else None)
            for row, request in enumerate(requests):
                for query in range(QUERIES):
                    found = selection.ids[row, query, : selection.length[row, query]].tolist()
                    at = torch.cat([engine.rows(request, i, i + 1) for i in found])
                    want = engine.records[layer][at]
                    wrong += not torch.equal(selection.records[row, query, : len(found)], want)
    return wrong


def main():
    torch.manual_seed(0)
    engine = Engine()
    config = {"pool": {"slots": 64}, "policy": {"use": "clock", "ways": 16}}
    blocks = tierkv.External(engine.records, page=PAGE)
    with tierkv.load(
        config, model=SPEC, lanes=LANES, max_tokens=256, queries=QUERIES, blocks=blocks
    ) as cache:
        lanes, wrong = {}, 0
        for request in ("a", "b", "c"):
            engine.extend(request, 100)
            lanes[request] = cache.admit(request)
        for _ in range(10):
            wrong += decode(engine, cache, lanes, ["a", "b", "c"])
        engine.finish("b")
        cache.release("b")
        engine.extend("d", 60)  # takes b's pages and its lane
        lanes["d"] = cache.admit("d")
        for _ in range(10):
            wrong += decode(engine, cache, lanes, ["d", "c", "a"])
        print(f"hit rate {cache.stats().hit_rate:.1%}, wrong selections {wrong}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
