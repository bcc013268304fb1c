"""The example of own masks runs as it is documented, on scenes of digits in two folders."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT
from PIL import Image

from robench.datasets.digit_scenes_impl import made


def test_an_own_network_is_measured_on_own_masks(tmp_path: Path) -> None:
    scenes = made("test").batch(0, 16)
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for example_id, image, mask in zip(scenes.ids, scenes.inputs, scenes.targets, strict=True):
        name = f"{example_id.rpartition('/')[2]}.png"
        Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy()).save(tmp_path / "images" / name)
        # Pixels between ink and background count as background here.
        Image.fromarray(mask.where(mask >= 0, 10).byte().numpy()).save(tmp_path / "masks" / name)
    script = ROOT / "examples" / "own_masks.py"
    done = subprocess.run(
        [sys.executable, str(script), "images", "masks"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "clean/mean_iou" in done.stdout
    assert "linf-4/255/robust_mean_iou" in done.stdout
    assert "own-c/corrupted_mean_iou" in done.stdout
    assert len(script.read_text().splitlines()) <= 60
