"""Operations of a real pass on the CPU by torch's own counter, for tests of forecasts."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from robench.core.checkpoint import Checkpoint
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.tasks import TASKS


def counted_by_torch(checkpoint: Checkpoint) -> float:
    """Return the multiply-adds of a pass of one example, or of one window of a language model."""
    torch.manual_seed(0)
    module: Any = build(checkpoint.architecture)
    if hasattr(module, "set_vocabulary"):
        module.set_vocabulary(["\n", "<unk>", "a", "good", "film"])
    if hasattr(module, "losses_of"):
        # Likelihoods of texts are of whole passes of several windows.
        module.eval().requires_grad_(requires_grad=False)
        inputs = torch.randint(0, 5, (1, module.architecture.context))
        return _counted(lambda: module.outputs_of_ids(inputs, *_seeds(module)))
    model = LoadedModel(module, checkpoint.preprocessing, torch.device("cpu"), TASKS[checkpoint.task])
    architecture: Any = checkpoint.architecture
    side, shape = (getattr(architecture, name, None) for name in ("image_size", "input_shape"))
    if checkpoint.task == "control":
        shape = (architecture.context, 2 + architecture.num_observations + architecture.num_actions)
    inputs = torch.tensor([[ord(sign) for sign in "a good film"]], dtype=torch.int32)
    if side:
        inputs = torch.rand(1, 3, side, side)
    elif shape:
        # Series, symbols without padding, or windows of time steps.
        inputs = torch.ones(1, *shape, dtype=model.domain.rules.dtype)
    return _counted(lambda: model.outputs(inputs, [0]))


def _seeds(module: Any) -> list[tuple[int]]:
    return [(0,)] if getattr(module, "takes_seeds", False) else []


def _counted(forward: Any) -> float:
    # What does not depend on the input, a frozen model computes once and keeps.
    forward()
    with FlopCounterMode(display=False) as counter:
        forward()
    return float(counter.get_total_flops()) / 2
