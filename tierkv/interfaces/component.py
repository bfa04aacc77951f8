"""What build asks of a registered class before it makes one."""

from typing import Any, ClassVar

import attrs

from tierkv.limits import Limits


@attrs.frozen
class NoOptions:
    """A component without options."""


class Component:
    """Options from the YAML, and a word on what will be allocated."""

    Options: ClassVar[type] = NoOptions
    """An attrs class; its fields are the component's YAML keys beside ``use``."""
    family: ClassVar[str] = ""
    """Named alike by a planner, server, installer and policy that only work together."""

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        """Give the bytes that an instance will allocate on the device for these limits.

        Raises
        ------
        ConfigError
            If options and limits do not fit together; nothing has been allocated yet.
        """
        return 0
