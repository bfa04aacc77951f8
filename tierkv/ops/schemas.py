"""Every operator, declared once.

Shapes: ``B`` rows, ``Q`` queries, ``K`` top-k, ``M = Q * K``, ``N`` backing rows, ``P`` slots. A
``Tensor[]`` of rows holds one tensor for whole records (uint8) or one a part; each needs only its
last dimension contiguous. Operators move integers and rows, so backends agree bit for bit with
:mod:`tierkv.ops.reference`. Mutating operators return nothing.
"""

_PLAN = (
    "Tensor lanes, Tensor kind, Tensor index, Tensor miss_id, Tensor miss_from, Tensor miss_count"
)
_PLACE = "Tensor(a!)[] tables, Tensor(b!) slot, Tensor(c!) count, Tensor(d!) counters) -> ()"

SCHEMAS = {
    # parts [B,Q,width] -> fresh [B,Q,width] for this step and out [N,width] at rows [B,Q]
    "append": "(Tensor[] parts, Tensor rows, Tensor(a!)[] fresh, Tensor(b!)[] out) -> ()",
    # ids [B,Q,K], the batch, slot_of [lanes,positions] -> the fields of Plan, counters [n]
    "plan": (
        "(Tensor ids, Tensor lanes, Tensor kv_len, Tensor q_len, Tensor stable, Tensor block_table,"
        " int page, Tensor slot_of, Tensor(a!) out_ids, Tensor(b!) kind, Tensor(c!) index,"
        " Tensor(d!) length, Tensor(e!) miss_id, Tensor(f!) miss_from, Tensor(g!) miss_count,"
        " Tensor(h!) counters) -> ()"
    ),
    # fresh [B,Q,width], pool [lanes,P,width], backing [N,width] -> out [B,Q,K,width]
    "serve": (
        "(Tensor lanes, Tensor kind, Tensor index, Tensor[] fresh, Tensor[] pool, Tensor[] backing,"
        " Tensor(a!)[] out) -> ()"
    ),
    # ids [B,Q,K], the batch, what lies at which place of which lane, id_at [lanes,Q'K] and
    # row_of [lanes] -> the fields of Plan and the work of `gather`
    "plan_gather": (
        "(Tensor ids, Tensor lanes, Tensor kv_len, Tensor q_len, Tensor stable, Tensor block_table,"
        " int page, int first_row, bool across, Tensor id_at, Tensor row_of, Tensor(a!) out_ids,"
        " Tensor(b!) kind, Tensor(c!) index, Tensor(d!) length, Tensor(e!) miss_id,"
        " Tensor(f!) miss_from, Tensor(g!) miss_count, Tensor(h!) source, Tensor(i!) work,"
        " Tensor(j!) work_count, Tensor(k!) counters) -> ()"
    ),
    # a plan of plan_gather -> id_at, row_of
    "place_gather": (
        "(Tensor lanes, Tensor ids, Tensor kind, Tensor miss_from, int first_row,"
        " Tensor(a!) id_at, Tensor(b!) row_of, Tensor(c!) slot, Tensor(d!) count,"
        " Tensor(e!) counters) -> ()"
    ),
    # fresh [B,Q,width], backing [N,width] -> buffer [R,Q',K,width] in place; filled [R,Q']
    "gather": (
        "(Tensor kind, Tensor index, Tensor length, Tensor source, Tensor work, Tensor work_count,"
        " int first_row, Tensor[] fresh, Tensor[] backing, Tensor(a!)[] buffer,"
        " Tensor(b!) filled) -> ()"
    ),
    # selection [B,Q,K,width] at miss_from -> pool [lanes,P,width] at slot [B,M]
    "install": (
        "(Tensor lanes, Tensor miss_from, Tensor miss_count, Tensor slot, Tensor[] selection,"
        " Tensor(a!)[] pool) -> ()"
    ),
    # one a policy: tables are slot_of [lanes,positions], id_at [lanes,P] and the policy's own
    "place_set_fifo": f"({_PLAN}, int hashing, {_PLACE}",
    "place_clock": f"({_PLAN}, int hashing, {_PLACE}",
    "place_lru": f"({_PLAN}, {_PLACE}",
    "place_set_lru": f"({_PLAN}, {_PLACE}",
    "place_sieve": f"({_PLAN}, {_PLACE}",
    "place_s3_fifo": f"({_PLAN}, {_PLACE}",
    "place_arc": f"({_PLAN}, {_PLACE}",
    "place_last_step": f"({_PLAN}, {_PLACE}",
    "place_unbounded": f"({_PLAN}, {_PLACE}",
    # on the worker, see WorkerSchedule: a place_<policy> operator and install, or install alone
    "submit": (
        f"(Tensor(d!) tickets, int buffer, int group, str policy, int[] arguments, {_PLAN},"
        " Tensor(a!)[] tables, Tensor(b!) slot, Tensor(c!) count, Tensor(e!) counters,"
        " Tensor[] selection, Tensor(f!)[] pool) -> ()"
    ),
    "submit_install": (
        "(Tensor(b!) tickets, int buffer, int group, Tensor lanes, Tensor miss_from,"
        " Tensor miss_count, Tensor slot, Tensor[] selection, Tensor(a!)[] pool) -> ()"
    ),
    # for the last job of a buffer and of a group, -1 is none; for every job if both are -1
    "wait": "(Tensor(a!) tickets, int buffer, int group) -> ()",
}

BEHIND_THE_STEP = ("submit", "submit_install", "wait")
"""Operators of background work. No compiled graph holds them, so a backend may have them called
past the dispatcher."""
