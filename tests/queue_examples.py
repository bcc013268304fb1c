"""Entries of tiny models of the digits for queues of trainings."""

from pathlib import Path

ENTRY = """\
  {name}:
    architecture: {{backbone: vit, image_size: 32, patch_size: 16, num_classes: 10, depth: 1, dim: 8, num_heads: 1}}
    weights: {{uri: weights/{name}.safetensors, sha256: null}}
    preprocessing: {{kind: image, mean: [0.3, 0.3, 0.3], std: [0.3, 0.3, 0.3]}}
    training: {{kind: one-cycle, dataset: digits, seed: 0, saved_as: float16, {fields}}}
    expected: {{}}
"""
FIELDS = "num_epochs: 3, batch_size: 200, learning_rate: 0.01"
# The weights become infinite.
DIVERGING = "num_epochs: 9, batch_size: 50, learning_rate: 1000000, weight_decay: 1000000"


def write_registry(path: Path, entries: dict[str, str]) -> Path:
    """Write a registry file of entries with the given fields of training."""
    lines = [ENTRY.format(name=name, fields=fields) for name, fields in entries.items()]
    path.parent.mkdir(exist_ok=True)
    path.write_text("checkpoints:\n" + "".join(lines))
    return path
