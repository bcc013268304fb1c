"""The registry's checkpoints are models of timm: built as timm asks, refused where they cannot be."""

from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.models._factory import resolve_model_input_args
from training_examples import checkpoint_of

from robench.attention.rpc import Rpc
from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
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
        "robench_tiny",
        pretrained=False,
        in_chans=3,
        num_classes=10,
        drop_rate=0.0,
        drop_path_rate=0.3,
        drop_block_rate=None,
        global_pool=None,
        bn_momentum=None,
        bn_eps=None,
        scriptable=False,
        checkpoint_path="",
        pretrained_cfg_overlay=None,
    )
    assert model.blocks[1].drop_path2.drop_prob == pytest.approx(0.3)  # type: ignore[index,union-attr]  # a list of blocks


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "robench_tiny",
            {"pretrained": True},
            "robench_tiny has no pretrained weights: those of checkpoint 'tiny' are",
        ),
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
