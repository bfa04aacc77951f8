"""A step that is open, and what the model says of it so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tierkv.step import Step
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row, RowPlan
from tierkv.types import Placement, Selection

Ids = list[list[list[int]]]
"""[B][Q][K] positions."""


@dataclass
class OpenStep:
    """A step that is open, and what the model says of it so far."""

    step: Step
    rows: Sequence[Row]
    ids: Mapping[int, Ids] = field(default_factory=dict)
    """Of each group that the step touches."""
    whole: bool = False
    """Whether it has ended well."""
    touched: list[int] = field(default_factory=list)
    """Groups that were appended to."""
    plans: dict[int, list[RowPlan]] = field(default_factory=dict)
    """Of each group, in the model, once its owner was served."""
    placements: list[Placement] = field(default_factory=list)
    """Of each group that was planned, not used again."""
    selected: list[int] = field(default_factory=list)
    """Layers that were selected, not used again."""
    held: list[tuple[int, Selection, Served]] = field(default_factory=list)
    """Layer, selection and what it must hold, of those that promise to be valid still."""

    @property
    def lanes(self) -> list[int]:
        """Lanes of the rows that are not padding."""
        return [row.lane for row in self.rows if row.lane >= 0]

    def hold(self, layer: int, selection: Selection, wanted: Served, depth: int) -> None:
        """Keep a layer's selection until one `depth` or more behind it is selected."""
        kept = [known for known in self.held if 0 < layer - known[0] < depth]
        self.held = [*kept, (layer, selection, wanted)]
