"""Write the header of the operators that the PyTorch extension launches.

``python generate_operators.py HEADER``; the source is ``tierkv_ascendc/operators.py``, which needs
neither torch nor an installation.
"""

import sys
from pathlib import Path

from generate_constants import HERE, load, write_text

SOURCE = HERE / "tierkv_ascendc" / "operators.py"


def header() -> str:
    """Text of ``tierkv_operators.h``."""
    operators = load(SOURCE).OPERATORS.values()
    rows = (f'    {{"{each.name}", "{each.type}",\n     "{each.words}"}},' for each in operators)
    return "\n".join(
        [
            f"// Generated from {SOURCE.name}; do not edit.",
            "#pragma once",
            "",
            '#include "description.h"',
            "",
            "namespace tierkv {",
            "",
            "constexpr Description kDescriptions[] = {",
            *rows,
            "};",
            "",
            "}  // namespace tierkv",
            "",
        ]
    )


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), header())
