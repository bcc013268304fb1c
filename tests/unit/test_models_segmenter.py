"""Segmenters: windows and their passes, seeds and losses, encoders of timm, weights of classifiers, and refusals."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from robench.analyses.observing import layout_of, observe
from robench.attention.base import AttentionBase
from robench.attention.bilateral import Bilateral
from robench.attention.linformer import Linformer
from robench.attention.mom import Mom
from robench.attention.primal import Primal
from robench.attention.rpc import Rpc
from robench.attention.rpc_impl import RpcAttention
from robench.attention.rvt import Rvt
from robench.attention.scaled import Scaled
from robench.attention.symmetric import Symmetric
from robench.attention.symmetric_impl import SymmetricAttention
from robench.core.errors import DeclarationError, WeightsError
from robench.core.seeds import LazySeeds, Stream, stream_seed
from robench.costs.counting import counts_of
from robench.declarations.base import FieldsError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.in_memory import in_memory_checkpoint
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.models.loading import load_strictly
from robench.models.segmenter import Segmenter, TimmSegmenter
from robench.models.segmenter_impl import SegmenterModel, encoder_state_from
from robench.models.transformer import Boost
from robench.models.vit import Vit
from robench.tasks.segmentation import SEGMENTATION

SMALL = Segmenter(image_size=8, patch_size=4, num_classes=3, depth=2, dim=8, num_heads=2, mlp_ratio=2.0)
OVERLAPPING = replace(SMALL, stride=5)
OF_TIMM = TimmSegmenter(
    name="vit_tiny_patch16_224", arguments={"depth": 2}, image_size=32, num_classes=4, decoder="linear"
)


def seeded(architecture: Segmenter | TimmSegmenter) -> SegmenterModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(architecture).double().eval()
    assert isinstance(model, SegmenterModel)
    return model


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class TestWindows:
    @pytest.mark.parametrize("size", [1, 2, 4, 9])
    def test_passes_have_exactly_the_declared_number_of_windows(self, size: int) -> None:
        """The image has six windows: two rows of three."""
        model = seeded(replace(OVERLAPPING, windows_per_pass=size))
        rows: list[int] = []
        model.decoder.register_forward_pre_hook(lambda module, given: rows.append(len(given[0])))
        logits = model(images(2, 3, 11, 18))
        assert rows == [size] * (2 * -(-6 // size))
        torch.testing.assert_close(logits, seeded(OVERLAPPING)(images(2, 3, 11, 18)), rtol=0, atol=1e-12)

    def test_an_image_has_the_same_logits_in_any_batch(self) -> None:
        model, batch = seeded(OVERLAPPING), images(3, 3, 9, 13)
        assert torch.equal(model(batch)[1:2], model(batch[1:2]))

    def test_each_window_of_an_image_draws_from_a_seed_of_its_own(self) -> None:
        model = seeded(replace(SMALL, attention=Mom(block_fraction=0.5), decoder="linear"))
        seen: list[Any] = []
        own = model.logits_of
        model.logits_of = lambda windows, seeds, losses: seen.append(seeds) or own(windows, seeds, losses)  # type: ignore[method-assign]
        image = images(1, 3, 8, 24)
        first, again = model(image, (7,)), model(image, (7,))
        assert torch.equal(first, again)
        assert not torch.equal(first, model(image, (8,)))
        assert list(seen[0]) == [stream_seed(7, Stream(purpose="window", draw=place)) for place in range(4)]
        # The windows of two images, and of a batch that is read as it is.
        assert torch.equal(model(torch.cat([image, image]), (8, 7))[1:], first)
        unread = LazySeeds(lambda: [1, 2], 2)
        seeded(SMALL)(images(2, 3, 8, 8), unread)
        assert not unread.were_read

    def test_auxiliary_losses_are_means_over_the_windows_of_an_image(self) -> None:
        model = seeded(replace(SMALL, attention=Primal(num_directions=2), decoder="linear", windows_per_pass=2))
        batch = images(2, 3, 8, 24)
        of_images: list[Tensor] = []
        model(batch, None, of_images)
        for row, image in enumerate(batch):
            of_windows: list[Tensor] = []
            model(torch.stack([image[:, :, left : left + 8] for left in (0, 8, 16)]), None, of_windows)
            assert len(of_windows) == len(of_images) == 2
            for of_image, of_layer in zip(of_images, of_windows, strict=True):
                assert of_layer.shape == (3,)
                torch.testing.assert_close(of_image[row], of_layer.mean())


class TestParts:
    def test_the_decoder_alone_drops_out_in_training(self) -> None:
        dropped, kept = seeded(SMALL).train(), seeded(replace(SMALL, decoder_dropout=0.0)).train()
        batch = images(2, 3, 8, 8)
        assert not torch.equal(dropped(batch), dropped(batch))
        assert torch.equal(kept(batch), kept(batch))
        assert torch.equal(dropped.eval()(batch), kept(batch))
        rates = {part.p for part in dropped.decoder.modules() if isinstance(part, nn.Dropout)}
        assert rates == {0.1}
        assert not any(isinstance(part, nn.Dropout) and part.p for part in dropped.encoder.modules())

    def test_initial_weights_of_the_decoder_are_as_published(self) -> None:
        decoder = seeded(replace(SMALL, dim=128, num_classes=50)).decoder
        assert decoder.get_parameter("cls_emb").std().item() == pytest.approx(0.02, rel=0.1)
        assert decoder.get_parameter("proj_dec.weight").std().item() == pytest.approx(0.02, rel=0.1)
        for name in ("proj_patch", "proj_classes"):
            assert decoder.get_parameter(name).std().item() == pytest.approx(128**-0.5, rel=0.1)
        assert [block.attn.num_heads for block in decoder.blocks] == [2, 2]  # type: ignore[union-attr]
        assert {norm.eps for norm in seeded(SMALL).modules() if isinstance(norm, nn.LayerNorm)} == {1e-5}

    def test_a_decoder_with_the_encoders_mechanism_has_its_layers(self) -> None:
        """As in rachtsy/segm: RPC-Attention in the first block, symmetric attention in the second, and dropout."""
        model: Any = build(replace(SMALL, attention=Rpc(num_iterations=3), decoder_attention="encoder"))
        kinds = [type(block.attn) for block in model.decoder.blocks]
        assert kinds == [type(block.attn) for block in model.encoder.blocks] == [RpcAttention, SymmetricAttention]
        assert model.decoder.blocks[0].attn.qkv.weight.std().item() == pytest.approx(0.02, rel=0.2)
        assert [block.drop_path1.p for block in model.decoder.blocks] == [0.1, 0.1]
        assert len(observe(model, lambda: model(torch.rand(1, 3, 8, 8)), layout_of(SMALL, model)).layers) == 2

    def test_analyses_see_the_encoder(self) -> None:
        model = seeded(SMALL)
        found = observe(model, lambda: model(images(2, 3, 8, 8)), layout_of(SMALL, model))
        assert [tokens.shape for tokens in found.tokens_BNC] == [(2, 5, 8)] * 3
        assert len(found.layers) == 2
        assert (found.layout.num_special, found.layout.grid) == (1, (2, 2))


class TestLoaded:
    def test_pixels_are_normalised_before_zeros_are_padded(self) -> None:
        mean, std = (0.3, 0.4, 0.5), (0.2, 0.2, 0.3)
        model = seeded(SMALL).float()
        pixels = torch.rand(1, 3, 6, 8, generator=torch.Generator().manual_seed(0))
        normalised = (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        wanted = model(nn.functional.pad(normalised, (0, 0, 0, 2)))[..., :6, :].detach()
        loaded = LoadedModel(model, ImagePreprocessing(mean=mean, std=std), task=SEGMENTATION)
        torch.testing.assert_close(loaded.outputs(pixels, [3]), wanted)

    @pytest.mark.parametrize("form", ["logits", "out", "tensor"])
    def test_modules_in_memory_return_logits_in_the_forms_of_libraries(self, form: str) -> None:
        """A segmentation model of torchvision returns a mapping with ``out``, one of transformers ``.logits``."""

        class Theirs(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.head = nn.Conv2d(3, 4, 1)

            def forward(self, images: Tensor) -> object:
                logits = self.head(images)
                return {"logits": SimpleNamespace(logits=logits), "out": {"out": logits}, "tensor": logits}[form]

        module = Theirs()
        entry = in_memory_checkpoint("theirs", "0" * 64, ImagePreprocessing(mean=(), std=()), Path(), "segmentation")
        pixels = torch.rand(1, 3, 5, 7)
        assert torch.equal(model_of(entry, module).outputs(pixels), module.head(pixels))


class TestPublishedSizes:
    TINY = Segmenter(image_size=512, patch_size=16, num_classes=150, depth=12, dim=192, num_heads=3)
    LARGE = replace(TINY, depth=24, dim=1024, num_heads=16)

    @pytest.mark.parametrize(
        ("architecture", "wanted"),
        [
            # Seg-T-Mask/16 and Seg-L-Mask/16 have 7 M and 334 M in the README of rstrudel/segmenter, whose encoders
            # keep the head of 1,000 classes: 193,000 and 1,025,000 parameters more.
            (TINY, 6_713_388),
            (LARGE, 332_644_652),
            # One linear layer in the place of the mask transformer.
            (replace(TINY, decoder="linear"), 6_713_388 - 1_029_996 + 28_950),
            # A third of the projections of each of 12 layers of the encoder less; t of each block more.
            (replace(TINY, attention=Symmetric()), 6_713_388 - 12 * 192 * 193),
            (replace(TINY, residual=Boost()), 6_713_388 + 12),
        ],
        ids=["tiny", "large", "linear", "symmetric", "boost"],
    )
    def test_parameters(self, architecture: Segmenter, wanted: int) -> None:
        with torch.device("meta"):
            model = build(architecture)
        assert sum(each.numel() for each in model.parameters()) == wanted
        assert abs(architecture.num_parameters - wanted) < 0.1 * wanted

    def test_operations_of_a_window_are_counted(self) -> None:
        """Both products of attention, those of patches and classes, and what depends on the sizes of the decoder."""
        found, linear = (counts_of("x", replace(SMALL, decoder=each), None) for each in ("mask-transformer", "linear"))
        # Four patches and three classes, width 8.
        assert found.products - linear.products == 2 * (2 * 7 * 7 * 8) + 4 * 3 * 8
        assert found.linear - linear.linear == 4 * 8 * 8 + 2 * 7 * 12 * 8 * 8 + 7 * 8 * 8 - 4 * 8 * 3


class TestTimm:
    def test_logits_are_those_of_timms_tokens(self) -> None:
        model = seeded(OF_TIMM)
        theirs = timm.create_model("vit_tiny_patch16_224", depth=2, img_size=32, num_classes=0).double().eval()
        theirs.load_state_dict(model.encoder.state_dict())
        batch = images(2, 3, 32, 32)
        tokens = theirs.forward_features(batch)[:, 1:]
        head: Any = model.decoder
        wanted = nn.functional.interpolate(
            (tokens @ head.head.weight.T + head.head.bias).transpose(1, 2).reshape(2, 4, 2, 2),
            (32, 32),
            mode="bilinear",
        )
        torch.testing.assert_close(model(batch), wanted, rtol=0, atol=1e-10)
        assert model(images(1, 3, 50, 20)).shape == (1, 4, 50, 20)
        assert not model.takes_seeds
        assert not model.takes_losses

    def test_models_that_pool_before_their_last_norm_have_normed_tokens(self) -> None:
        sizes: dict[str, Any] = {"depth": 1, "embed_dim": 16, "num_heads": 2}
        model = seeded(replace(OF_TIMM, name="beit_base_patch16_224", arguments=sizes))
        found: list[Tensor] = []
        model.decoder.register_forward_pre_hook(lambda module, given: found.append(given[0]))
        model(images(1, 3, 32, 32))
        torch.testing.assert_close(found[0].var(-1, correction=0), torch.ones(1, 4).double(), rtol=1e-3, atol=0)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"image_size": 40}, r"covers a window of 40 x 40 pixels \(grid \(2, 2\), patches \(16, 16\)\)"),
            ({"name": "swin_tiny_patch4_window7_224", "arguments": {}}, "take a plain vision transformer"),
            ({"name": "resnet18", "arguments": {}}, "unexpected keyword argument 'img_size'"),
            ({"decoder": "mask-transformer", "decoder_heads": 7}, "must divide the width .*, 192, got 7"),
        ],
    )
    def test_models_without_a_grid_of_patches_are_refused(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(DeclarationError, match=message):
            build(replace(OF_TIMM, **changes))


class TestWeightsOfClassifiers:
    def classifier(self, side: int = 16, **fields: Any) -> nn.Module:
        given: dict[str, Any] = {name: getattr(SMALL, name) for name in ("patch_size", "depth", "dim", "num_heads")}
        with torch.random.fork_rng():
            torch.manual_seed(5)
            return build(Vit(image_size=side, num_classes=9, mlp_ratio=2.0, **given | fields)).double().eval()

    def test_the_encoder_has_them_and_positions_are_interpolated(self) -> None:
        for fields in ({}, {"distilled": True}, {"attention": Rpc(layers=(0,))}, {"attention": Bilateral()}):
            theirs, model = self.classifier(**fields), seeded(replace(SMALL, **fields))
            before = {name: value.clone() for name, value in model.state_dict().items()}
            load_strictly(model, encoder_state_from(theirs.state_dict(), model), "weights")
            state = model.state_dict()
            for name, value in theirs.state_dict().items():
                if name != "pos_embed" and not name.startswith("head"):
                    assert torch.equal(state[f"encoder.{name}"], value), name
            assert all(torch.equal(state[name], value) for name, value in before.items() if name.startswith("decoder."))
            special = 1 + bool(fields.get("distilled"))
            theirs_pos, ours_pos = theirs.get_parameter("pos_embed")[0], state["encoder.pos_embed"][0]
            assert torch.equal(ours_pos[:special], theirs_pos[:special])
            # From 4 x 4 to 2 x 2 patches: the centre of each is the corner of four.
            of_grid = theirs_pos[special:].unflatten(0, (4, 4))
            for place, position in enumerate(ours_pos[special:]):
                row, column = 2 * (place // 2), 2 * (place % 2)
                wanted = of_grid[row : row + 2, column : column + 2].mean((0, 1))
                torch.testing.assert_close(position, wanted, rtol=0, atol=1e-12)

    def test_a_window_of_the_classifiers_size_has_its_tokens(self) -> None:
        theirs, model = self.classifier(side=8, attention=Rvt()), seeded(replace(SMALL, attention=Rvt()))
        load_strictly(model, encoder_state_from(theirs.state_dict(), model), "weights")
        tokens: list[Tensor] = []
        model.decoder.register_forward_pre_hook(lambda module, given: tokens.append(given[0]))
        model(images(1, 3, 8, 8))
        # LayerNorm's epsilon differs.
        wanted: Tensor = theirs.forward_features(images(1, 3, 8, 8))[:, 1:]  # type: ignore[operator]
        torch.testing.assert_close(tokens[0], wanted, rtol=0, atol=0.01)

    @pytest.mark.parametrize("attention", [Rvt(), Scaled(), Linformer(projection_length=3), Primal(num_directions=1)])
    def test_parameters_by_the_number_of_tokens_are_refused(self, attention: AttentionBase) -> None:
        theirs, model = self.classifier(attention=attention), seeded(replace(SMALL, attention=attention))
        with pytest.raises(DeclarationError, match="depends on the number of tokens, and neither paper nor code"):
            encoder_state_from(theirs.state_dict(), model)

    def test_primals_rows_that_do_not_depend_on_it_are_kept(self) -> None:
        attention = Primal(num_directions=1, rank_multiplier=4)
        theirs, model = self.classifier(attention=attention), seeded(replace(SMALL, attention=attention))
        load_strictly(model, encoder_state_from(theirs.state_dict(), model), "weights")

    def test_other_models_weights_are_refused(self) -> None:
        model = seeded(SMALL)
        with pytest.raises(WeightsError, match="pos_embed has 18 positions, expected 1 and a square grid of patches"):
            encoder_state_from(self.classifier(distilled=True).state_dict(), model)
        deeper = encoder_state_from(self.classifier(depth=3).state_dict(), model)
        with pytest.raises(WeightsError, match=r"12 unexpected: encoder.blocks.2"):
            load_strictly(model, deeper, "weights")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": 9}, "stride must be at most image_size 8, got 9"),
        ({"decoder_heads": 3}, "decoder_heads must divide dim 8, got 3"),
        ({"decoder": "linear", "decoder_depth": 3}, "decoder_depth has no effect with decoder linear, got 3"),
        ({"decoder_attention": "encoder"}, "must be softmax unless .* attention symmetric or rpc, got encoder"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"image_size": 10}, "image_size must be a multiple of patch_size 4"),
        ({"attention": Rpc(layers=(2,))}, r"attention.layers must lie in 0..1 \(depth 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldsError, match=message):
        replace(SMALL, **changes)
