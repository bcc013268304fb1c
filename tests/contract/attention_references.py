"""All slow references, by kind of attention; a new mechanism brings one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reference_rpc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reference_base import Reference

REFERENCES: Mapping[str, Reference] = {**reference_rpc.REFERENCES}
