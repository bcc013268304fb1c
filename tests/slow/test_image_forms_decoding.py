"""Decoding processes read images inside tars, zips and Parquet shards."""

from pathlib import Path

import image_forms
import torch
from image_forms import pictures
from test_datasets_imagenet_forms import opened, write_zip


def test_pixels_are_those_of_the_measuring_process(tmp_path: Path) -> None:
    image_forms.published_tar(tmp_path / "tar")
    image_forms.parquet(tmp_path / "parquet")
    members = [(f"sketch/{each.path}", each.content) for each in pictures()]
    write_zip(tmp_path / "zip" / "imagenet-sketch" / "ImageNet-Sketch.zip", members)
    for folder, name in (("tar", "imagenet-1k"), ("parquet", "imagenet-1k"), ("zip", "imagenet-sketch")):
        helped = opened(tmp_path / folder, name, decode_workers=2)
        helped.read_ahead(0, 9)
        for start, stop in ((0, 9), (9, 40)):
            assert torch.equal(
                helped.batch(start, stop).inputs, opened(tmp_path / folder, name).batch(start, stop).inputs
            )
    helped.close()
