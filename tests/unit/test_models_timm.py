"""Models of timm: any by its name as a backbone, and the registry's checkpoints as timm builds them."""

from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.models._factory import resolve_model_input_args
from torch import nn
from training_examples import checkpoint_of

from robench.attention.rpc import Rpc
from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, UnknownNameError
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.foreign import Python, Timm
from robench.models.timm_registry import register_in_timm, timm_name
from robench.models.vit import Fan

pytestmark = pytest.mark.filterwarnings("ignore:Overwriting")
FAN = Fan(image_size=32, patch_size=8, num_classes=10, depth=1, dim=16, num_heads=2)
OTHER = Timm(name="vit_tiny_patch16_224", arguments={"img_size": 32, "depth": 1, "embed_dim": 24})


def named(name: str, architecture: Any = None, **fields: Any) -> Checkpoint:
    checkpoint = checkpoint_of() if architecture is None else checkpoint_of(architecture)
    return replace(checkpoint, name=name, **fields)


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    rpc = replace(checkpoint_of().architecture, attention=Rpc(num_iterations=2))  # type: ignore[type-var]  # a dataclass
    register_in_timm([named("tiny"), named("tiny-rpc.2", rpc), named("tiny-fan", FAN), named("tiny-timm", OTHER)])


def test_every_entry_of_the_registry_is_listed_by_its_name_with_underscores() -> None:
    checkpoints = read_registry(shipped_registry())
    names = register_in_timm(checkpoints.values())
    assert names == tuple(timm_name(name) for name in checkpoints)
    assert len(set(names)) == len(checkpoints)
    assert set(names) <= set(timm.list_models("robench_*"))
    assert "robench_rpc_symvit" in names
    assert not set(timm.list_models("robench_*", pretrained=True))


@pytest.mark.parametrize("name", ["tiny", "tiny-rpc.2", "tiny-fan", "tiny-timm"])
def test_a_model_of_timms_is_the_declared_one_with_the_same_draws(name: str) -> None:
    architecture = {"tiny-fan": FAN, "tiny-timm": OTHER}.get(name, checkpoint_of().architecture)
    if name == "tiny-rpc.2":
        architecture = replace(architecture, attention=Rpc(num_iterations=2))  # type: ignore[type-var]  # a dataclass
    torch.manual_seed(4)
    wanted = build(architecture).state_dict()
    torch.manual_seed(4)
    found = timm.create_model(timm_name(name)).state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_sizes_that_a_script_asks_for_are_taken_over() -> None:
    model = timm.create_model("robench_tiny", num_classes=7, in_chans=1, img_size=(64, 64))
    assert model(torch.zeros(2, 1, 64, 64)).shape == (2, 7)
    assert resolve_data_config({}, model=model)["input_size"] == (1, 64, 64)
    fan = timm.create_model("robench_tiny_fan", num_classes=7, img_size=64)
    assert fan(torch.zeros(2, 3, 64, 64)).shape == (2, 7)
    other = timm.create_model("robench_tiny_timm", num_classes=7, class_token=False, global_pool="avg")
    assert other(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


@pytest.mark.parametrize("name", ["robench_tiny", "robench_tiny_fan", "robench_tiny_timm"])
def test_a_script_that_resolves_an_image_size_gets_a_model_of_it(name: str) -> None:
    asked = {"input_size": (3, 64, 64)}
    model = timm.create_model(**resolve_model_input_args(name, asked, num_classes=4))
    size = resolve_data_config(asked, model=model)["input_size"]
    assert model(torch.zeros(2, *size)).shape == (2, 4)


@pytest.mark.parametrize(("name", "num_classes"), [("robench_tiny", 1000), ("robench_tiny_fan", 10)])
def test_a_script_can_ask_a_model_for_its_number_of_classes(name: str, num_classes: int) -> None:
    assert timm.create_model(name).num_classes == num_classes


def test_what_timms_train_script_passes_without_a_value_is_taken() -> None:
    model = timm.create_model(
        "robench_tiny", pretrained=False, in_chans=3, num_classes=10, drop_rate=0.0, drop_path_rate=0.3,
        drop_block_rate=None, global_pool=None, bn_momentum=None, bn_eps=None, scriptable=False, checkpoint_path="",
        pretrained_cfg_overlay=None,
    )  # fmt: skip
    assert model.blocks[1].drop_path2.drop_prob == pytest.approx(0.3)  # type: ignore[index,union-attr]  # a list of blocks


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("robench_tiny", {"pretrained": True}, "robench_tiny has no pretrained weights: those of checkpoint 'tiny'"),
        ("robench_tiny", {"drop_rate": 0.1}, "robench_tiny has no dropout, got drop_rate 0.1"),
        (
            "robench_tiny",
            {"global_pool": "avg", "depth": 3},
            "robench_tiny does not take depth, global_pool: backbone 'vit' takes",
        ),
        ("robench_tiny", {"img_size": 33}, "image_size must be a multiple of patch_size 16, got 33"),
        ("robench_tiny_timm", {"no_such": 1}, "cannot be built with arguments"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        timm.create_model(name, **arguments)


def test_a_model_of_the_users_own_takes_no_sizes() -> None:
    register_in_timm([named("own", Python(target="timm:create_model", arguments={"model_name": "resnet18"}))])
    with pytest.raises(DeclarationError, match="does not take num_classes: backbone 'python' takes drop_path_rate"):
        timm.create_model("robench_own", num_classes=5)


def test_two_checkpoints_of_one_name_in_timm_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"'a-b' and 'a\.b' would both be robench_a_b in timm"):
        register_in_timm([named("a-b"), named("a.b")])


def test_scripts_see_the_checkpoints_preprocessing() -> None:
    config = resolve_data_config({}, model=timm.create_model("robench_tiny"))
    assert config["input_size"] == (3, 32, 32)
    assert config["mean"] == (0.5, 0.4, 0.3)
    assert config["std"] == (0.2, 0.3, 0.25)
    assert config["interpolation"] == "bicubic"
    assert config["crop_pct"] == pytest.approx(32 / 36)
    resize, crop, *_ = create_transform(**config).transforms  # type: ignore[union-attr]  # a composition
    assert (resize.size, crop.size) == (36, (32, 32))


def test_settings_that_a_script_lays_over_count() -> None:
    model = timm.create_model("robench_tiny", pretrained_cfg_overlay={"crop_pct": 0.5})
    assert resolve_data_config({}, model=model)["crop_pct"] == 0.5


TINY: dict[str, Any] = {"img_size": 32, "num_classes": 5, "depth": 2, "embed_dim": 12, "num_heads": 3}


def fused(module: nn.Module) -> list[bool]:
    return [bool(part.fused_attn) for part in module.modules() if hasattr(part, "fused_attn")]


def test_the_model_is_timms_with_the_declared_arguments() -> None:
    module = build(Timm(name="vit_tiny_patch16_224", arguments=TINY))
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert set(module.state_dict()) == set(timm.create_model("vit_tiny_patch16_224", **TINY).state_dict())


def test_fused_attention_is_off_in_every_layer_and_in_this_model_alone() -> None:
    assert fused(timm.create_model("vit_tiny_patch16_224", **TINY)) == [True, True]
    assert fused(build(Timm(name="vit_tiny_patch16_224", arguments=TINY))) == [False, False]
    assert fused(timm.create_model("vit_tiny_patch16_224", **TINY)) == [True, True]


def test_the_unfused_model_computes_what_the_fused_one_does() -> None:
    theirs = timm.create_model("vit_tiny_patch16_224", **TINY).double().eval()
    ours = build(Timm(name="vit_tiny_patch16_224", arguments=TINY)).double().eval()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ours(images), theirs(images), rtol=0, atol=1e-12)


def test_initial_weights_come_from_torchs_global_generator() -> None:
    states = []
    with torch.random.fork_rng():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            states.append(build(Timm(name="vit_tiny_patch16_224", arguments=TINY)).state_dict()["pos_embed"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_a_tag_of_pretrained_weights_is_part_of_timms_names() -> None:
    module = build(Timm(name="vit_tiny_patch16_224.augreg_in21k_ft_in1k", arguments=TINY))
    assert module(torch.zeros(1, 3, 32, 32)).shape == (1, 5)


def test_an_unknown_name_gets_the_nearest_of_timms() -> None:
    with pytest.raises(UnknownNameError) as caught:
        build(Timm(name="vit_tiny_patch16_242"))
    message = str(caught.value)
    assert "unknown timm model 'vit_tiny_patch16_242'. Did you mean 'vit_tiny_patch16_224'?" in message
    assert f"the nearest of the {len(timm.list_models())} names" in message
    assert len(message) < 600


@pytest.mark.parametrize("name", ["hf-hub:timm/resnet18.a1_in1k", "local-dir:/tmp", "", "../resnet18", "zzzzzz"])
def test_names_that_would_lead_elsewhere_are_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown timm model"):
        build(Timm(name=name))


@pytest.mark.parametrize("argument", ["pretrained", "checkpoint_path", "pretrained_cfg", "cache_dir"])
def test_arguments_by_which_timm_would_load_weights_itself_are_refused(argument: str) -> None:
    with pytest.raises(DeclarationError, match=rf"must not name {argument}, because weights come from"):
        build(Timm(name="vit_tiny_patch16_224", arguments={argument: True}))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vit_tiny_patch16_224", {"no_such_argument": 1}),
        ("vit_tiny_patch16_224", {"num_heads": 5}),
        ("vit_tiny_patch16_224.no_such_tag", {}),
    ],
)
def test_what_timm_refuses_becomes_a_declaration_error_with_its_cause(name: str, arguments: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match=r"cannot be built with arguments .*Check them") as caught:
        build(Timm(name=name, arguments=arguments))
    assert caught.value.__cause__ is not None
