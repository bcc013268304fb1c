"""All slow references, by kind of attention; a new mechanism brings one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reference_dot
import reference_kernel
import reference_layers
import reference_linear
import reference_mom
import reference_primal
import reference_rpc
import reference_spkde

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reference_base import Reference

REFERENCES: Mapping[str, Reference] = {
    **reference_rpc.REFERENCES,
    **reference_dot.REFERENCES,
    **reference_layers.REFERENCES,
    **reference_kernel.REFERENCES,
    **reference_linear.REFERENCES,
    **reference_primal.REFERENCES,
    **reference_mom.REFERENCES,
    **reference_spkde.REFERENCES,
}
