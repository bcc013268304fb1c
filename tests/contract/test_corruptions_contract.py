"""What every corruption must hold, over all 19 types; and that at 32 pixels each is what a slow reference makes."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from corruption_references import CONSTANTS_32, REFERENCES, Numbers, photographs, psnr, reference
from PIL import Image

from robench.core.errors import ContractError
from robench.core.identity import key_of
from robench.corruptions import COLOUR_TYPES, COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, TYPES
from robench.corruptions import corruption_impl as portions
from robench.corruptions.corruption import Corruption
from robench.testing.corruption import CORRUPTION_CHECKS, corrupted, names_its_type_and_severity, repeated_severities
from robench.testing.expectations import DECLARATION_CHECKS

DRAW_NOTHING = {
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
}
SEVERITIES = range(1, 6)
# Severities after which the authors' own constants do not move images further: the next one is as near, or nearer.
FALLS = {
    ("imagenet", "glass_blur"): {1, 3}, ("imagenet", "frost"): {3}, ("imagenet", "elastic_transform"): {2},
    ("imagenet", "saturate"): {2}, ("cifar", "glass_blur"): {1, 2, 4}, ("cifar", "motion_blur"): {3},
    ("cifar", "frost"): {3}, ("cifar", "elastic_transform"): {1, 2, 3, 4}, ("cifar", "spatter"): {3},
    ("cifar", "saturate"): {2},
}  # fmt: skip
every_type = pytest.mark.parametrize("kind", TYPES)


def photographed(size: int, num_examples: int = 10) -> torch.Tensor:
    return torch.from_numpy(photographs(size)[:num_examples]).permute(0, 3, 1, 2).float() / 255


def small_images(num_examples: int = 5) -> torch.Tensor:
    """Return images that are not square, with black, white and grey places."""
    images = photographed(32, num_examples)[:, :, 2:28, :].clone()
    images[0, :, :6], images[0, :, 6:12], images[1] = 0.0, 1.0, 0.0
    images[2] = images[2, :1]
    return images


def levels_of(images: torch.Tensor) -> np.ndarray[Any, Any]:
    return (images * 255).round().permute(0, 2, 3, 1).numpy()


def test_every_declared_type_has_an_implementation_and_a_reference() -> None:
    for name, table in {"REFERENCES": REFERENCES, "CONSTANTS_32": CONSTANTS_32}.items():
        lacking = sorted(set(TYPES) - set(table))
        assert lacking == [], f"add a line for each to {name} of tests/contract/corruption_references.py"
    assert set(TYPES) == set(REFERENCES) == set(CONSTANTS_32)
    # Those that were published can all be made.
    assert {*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS} <= set(TYPES)


@every_type
@pytest.mark.parametrize("severity", SEVERITIES)
def test_at_32_pixels_it_is_what_the_reference_makes(kind: Any, severity: int) -> None:
    declaration = Corruption(type=kind, severity=severity, constants="cifar")
    ours = levels_of(corrupted(declaration, photographed(32)))
    wanted = [reference(kind, image, severity, Numbers(i)) for i, image in enumerate(photographs(32))]
    ratios = [psnr(*pair) for pair in zip(ours, wanted, strict=True)]
    assert np.mean(ratios) > 58
    # A drop may begin a pixel sooner, where the noise is as good as its threshold.
    assert min(ratios) > (45 if kind == "spatter" else 55)


@every_type
@pytest.mark.parametrize("constants", ["imagenet", "cifar"])
def test_severities_move_images_further_but_where_the_authors_constants_do_not(kind: Any, constants: Any) -> None:
    images = photographed(224 if constants == "imagenet" else 32)
    distances = []
    for severity in SEVERITIES:
        change = corrupted(Corruption(type=kind, severity=severity, constants=constants), images) - images
        distances.append(float(change.square().mean((1, 2, 3)).sqrt().mean()))
    falls = {i + 1 for i in range(4) if not distances[i + 1] > distances[i]}
    assert min(distances) > 0.0
    assert falls == FALLS.get((constants, kind), set()), "list severities weaker than the last in FALLS of this file"


@every_type
@pytest.mark.parametrize("constants", ["imagenet", "cifar"])
class TestCorruptionContract:
    @pytest.mark.parametrize("check", CORRUPTION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_corruption_promises(self, kind: Any, constants: Any, check: Any) -> None:
        check(Corruption(type=kind, severity=3, constants=constants), small_images())

    def test_returns_whole_levels(self, kind: Any, constants: Any) -> None:
        for severity in (1, 5):
            result = corrupted(Corruption(type=kind, severity=severity, constants=constants), small_images())
            levels = (result.double() * 255).round()
            assert torch.equal((levels / 255.0).float(), result)

    def test_another_severity_gives_another_result(self, kind: Any, constants: Any) -> None:
        same = repeated_severities(Corruption(type=kind, severity=1, constants=constants), photographed(64, 2))
        # Trails of deviation 2 are as good as over after 6 pixels, and 8 are no more.
        assert same == ({3} if (constants, kind) == ("cifar", "motion_blur") else set())

    def test_only_what_draws_depends_on_the_seed(self, kind: Any, constants: Any) -> None:
        images = photographed(64, 1).expand(2, -1, -1, -1)
        one, other = corrupted(Corruption(type=kind, severity=5, constants=constants), images)
        assert torch.equal(one, other) == (kind in DRAW_NOTHING), "list types that draw nothing in DRAW_NOTHING"


@every_type
def test_a_type_keeps_what_every_declaration_promises(kind: Any) -> None:
    for check in DECLARATION_CHECKS:
        check(Corruption(type=kind, severity=3))
    names_its_type_and_severity(Corruption(type=kind, severity=3))


@every_type
def test_neither_portions_nor_threads_change_a_byte(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    images, declaration = photographed(64, 3), Corruption(type=kind, severity=5)
    one_at_a_time = corrupted(declaration, images)
    monkeypatch.setattr(portions, "PORTION_ON_CPU", 2**25)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert torch.equal(corrupted(declaration, images), one_at_a_time)
    finally:
        torch.set_num_threads(threads)


@every_type
def test_inputs_are_read_as_8_bits(kind: Any) -> None:
    images, declaration = small_images(), Corruption(type=kind, severity=3)
    between = (images + 0.4 / 255).clamp(max=1.0)
    assert torch.equal(corrupted(declaration, between), corrupted(declaration, images))


@every_type
def test_saving_as_jpeg_is_one_more_compression_at_quality_85(kind: Any) -> None:
    images = photographed(32, 2)
    plain = corrupted(Corruption(type=kind, severity=3), images)
    saved = corrupted(Corruption(type=kind, severity=3, saved_as="jpeg-85"), images)
    for image, wanted in zip(levels_of(plain).astype(np.uint8), levels_of(saved), strict=True):
        file = BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=85, optimize=True)
        assert np.array_equal(np.asarray(Image.open(file)), wanted)


@pytest.mark.parametrize(
    "fields", [*({"type": kind} for kind in sorted(COLOUR_TYPES)), {"type": "fog", "saved_as": "jpeg-85"}]
)
def test_what_mixes_colours_takes_grey_as_equal_channels_and_gives_pillows_grey(fields: dict[str, Any]) -> None:
    declaration, images = Corruption(severity=4, **fields), photographed(32, 3)[:, :1]
    coloured = images.repeat(1, 3, 1, 1)
    made = corrupted(declaration, images)
    assert not torch.equal(made, images)
    if declaration.type in COLOUR_TYPES:
        # As if a grey file had been converted to colour, corrupted, saved and converted back.
        saved = (corrupted(declaration, coloured) * 255).round().byte().permute(0, 2, 3, 1).numpy()
        wanted = [np.array(Image.fromarray(each).convert("L")) for each in saved]
        assert np.array_equal(levels_of(made)[..., 0], wanted)
    assert declaration.problem_with_shape((3, 8, 8)) == declaration.problem_with_shape((1, 8, 8)) == ""
    with pytest.raises(ContractError, match=r"needs colour or grey images \(3 or 1, height, width\), got \(4, 8, 8\)"):
        corrupted(declaration, torch.zeros(2, 4, 8, 8))


def test_jpeg_of_a_grey_image_is_that_of_a_grey_file() -> None:
    images = photographed(32, 2)[:, :1]
    made = corrupted(Corruption(type="jpeg_compression", severity=3), images)
    for image, found in zip(levels_of(images), levels_of(made), strict=True):
        file = BytesIO()
        Image.fromarray(image[..., 0].astype(np.uint8)).save(file, "JPEG", quality=15)
        assert np.array_equal(np.array(Image.open(file)), found[..., 0])


@pytest.mark.parametrize("kind", sorted(set(TYPES) - COLOUR_TYPES))
def test_all_others_take_any_number_of_channels(kind: str) -> None:
    bands = torch.rand(2, 5, 32, 32, generator=torch.Generator().manual_seed(0))
    declaration = Corruption(type=kind, severity=3)
    made = corrupted(declaration, bands)
    assert torch.equal((made * 255).round() / 255, made)
    assert corrupted(declaration, bands[:, :1]).shape == (2, 1, 32, 32)
    # What is neither drawn for each channel nor measured over all of them changes each channel alone.
    if kind not in ("fog", "brightness") and not kind.endswith("_noise"):
        assert torch.equal(corrupted(declaration, bands[:, :3]), made[:, :3])


def test_types_have_draws_of_their_own_and_severities_share_them() -> None:
    grey = torch.full((1, 3, 64, 64), 128 / 255)
    weak, strong = (corrupted(Corruption(type="gaussian_noise", severity=s), grey) - grey for s in (1, 2))
    speckle = corrupted(Corruption(type="speckle_noise", severity=1), grey) - grey
    together = torch.stack([weak.flatten(), strong.flatten(), speckle.flatten()]).corrcoef()
    assert float(together[0, 1]) > 0.99
    assert abs(float(together[0, 2])) < 0.05


def test_its_identity_is_its_fields_and_defaults_are_left_out() -> None:
    plain = Corruption(type="fog", severity=3)
    assert key_of(plain) == key_of(Corruption(type="fog", severity=3, constants="imagenet", saved_as="float"))
    others = [
        replace(plain, type="snow"),
        replace(plain, severity=4),
        replace(plain, constants="cifar"),
        replace(plain, saved_as="jpeg-85"),
    ]
    assert len({key_of(each) for each in [plain, *others]}) == 5
