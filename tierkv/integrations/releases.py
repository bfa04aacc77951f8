"""Which releases of transformers will do; importing this imports none of it."""

LOWEST, ABOVE = (5, 18), (6,)
"""Latents are cached from the first on; before, expanded keys and values were."""


def numbers(version: str) -> tuple[int, ...]:
    """Give the first two numbers of a version, to be compared with the bounds."""
    return tuple(int(number) for number in version.split(".")[:2])
