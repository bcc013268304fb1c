"""Type of options that take training seeds."""

import re

import click

# A mistyped range must not start thousands of trainings.
MOST_SEEDS = 1000


class SeedRange(click.ParamType):  # type: ignore[type-arg]  # as AbsolutePath
    """Seeds as ``3``, ``0-4`` or ``0-2,7``."""

    name = "seeds"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the seeds, each once, in order."""
        seeds: list[int] = []
        for part in value.split(","):
            found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
            if found is None:
                self.fail(f"{value!r} is not a list of seeds; write 0-4 or 0,3,7", param, ctx)
            first, last = int(found[1]), int(found[2] or found[1])
            if not first <= last < first + MOST_SEEDS:
                self.fail(f"{part.strip()!r} must be 1 to {MOST_SEEDS} seeds, the smallest first", param, ctx)
            seeds.extend(range(first, last + 1))
        return tuple(dict.fromkeys(seeds))
