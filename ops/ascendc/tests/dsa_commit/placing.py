"""A plan and tables as the inputs of placement."""

from group_steps import Group, Plan, Sizes
from torch import Tensor


def arguments(group: Group, step: dict[str, Tensor], plan: Plan) -> dict[str, Tensor]:
    planned = ("kind", "index", "miss_id", "miss_from", "miss_count")
    tables = {name: table.clone() for name, table in group.tables.items()}
    return {
        "lanes": step["lanes"],
        **{name: plan.tensors[name] for name in planned},
        **tables,
        "counters": group.counters.clone(),
    }


def attrs(sizes: Sizes) -> dict[str, int]:
    return {"policy": int(sizes.clock), "hashing": sizes.hashing}
