"""Which CANN operator does each operator of tierkv: the one description of both.

From it follow the calls of the extension (``torch/operators.cpp``), the functional twins, and the
converters for GE.
"""

from dataclasses import dataclass

BYTES = "<bytes>"
"""Word for the bytes of a row; where it stands, rows may lie apart."""
ABSENT = "-"
"""Word for an optional tensor that is not there."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of tierkv.

    A *word* says what an argument of CANN's operator is: ``name``, an argument of the schema, of a
    list of records its only tensor; ``name?``, the same, but the list may be empty; ``name[2]``, a
    tensor of a list; ``name!``, one that the call of each record must find as it was; a number;
    :data:`BYTES`; :data:`ABSENT`.
    """

    name: str
    type: str
    """CANN's name."""
    inputs: dict[str, str]
    """CANN's name of each input, in order -> its word."""
    attributes: dict[str, str]
    """Likewise."""
    outputs: tuple[str, ...]
    """CANN's names; one that is an input too is changed in place, another is a schema's."""

    @property
    def made(self) -> tuple[str, ...]:
        """Outputs that are no inputs."""
        return tuple(name for name in self.outputs if name not in self.inputs)

    @property
    def words(self) -> str:
        """All of a call, in order: inputs, attributes, outputs."""
        return " ".join([*self.inputs.values(), *self.attributes.values(), *self.made])


def _named(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split())
    return {name: word or name for name, _, word in pairs}


def _operator(name: str, kind: str, inputs: str, attributes: str, outputs: str) -> Operator:
    return Operator(name, kind, _named(inputs), _named(attributes), tuple(outputs.split()))


_BATCH = "ids lanes kv_len q_len stable block_table"
_PLAN = "out_ids kind index length miss_id miss_from miss_count"
_TABLES = "slot_of=tables[0] id_at=tables[1] hand=tables[2]"
_COMMIT = f"lanes kind index miss_id miss_from miss_count {_TABLES}"
_COMMITTED = "slot_of id_at hand visited counters slot count"
_GATHER = "kind index length source work work_count fresh backing buffer filled=filled!"

OPERATORS = {
    operator.name: operator
    for operator in (
        _operator("append", "DsaAppend", "part=parts rows fresh=fresh? backing=out?",
                  f"width={BYTES}", "fresh backing"),
        _operator("plan", "DsaPlan", f"{_BATCH} slot_of counters", "page", f"{_PLAN} counters"),
        _operator("place_set_fifo", "DsaCommit", f"{_COMMIT} visited={ABSENT} counters",
                  "policy=0 hashing", _COMMITTED),
        _operator("place_clock", "DsaCommit", f"{_COMMIT} visited=tables[3] counters",
                  "policy=1 hashing", _COMMITTED),
        _operator("serve", "DsaServe", "lanes kind index fresh pool backing", "", "out"),
        _operator("install", "DsaInstall", "lanes miss_from miss_count slot selection pool", "",
                  "pool"),
        _operator("plan_gather", "GatherSelectionPlan", f"{_BATCH} id_at row_of counters",
                  "page first_row across", f"{_PLAN} source work work_count counters"),
        _operator("place_gather", "GatherSelectionPlace",
                  "lanes ids kind miss_from id_at row_of counters", "first_row",
                  "id_at row_of slot count counters"),
        _operator("gather", "GatherSelectionKvCache", _GATHER, "first_row", "buffer filled"),
    )
}  # fmt: skip
"""By their names in :data:`tierkv.ops.schemas.SCHEMAS`; those that the device has."""
