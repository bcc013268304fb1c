"""Commands of released code in the registry train what the entries build."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from robench.attention.fourier_mom import FourierMom
from robench.attention.mom import Mom
from robench.attention.rkde import Rkde
from robench.attention.rvt import Rvt
from robench.attention.softmax import Softmax
from robench.attention.spkde import Spkde
from robench.core.declared import Declaration
from robench.declare import read_registry, shipped_registry
from robench.models.vit import Vit

ENTRIES = read_registry(shipped_registry())
# Options of aaronhan223/robust_transformer, imagenet/main.py, commit a5dcdea, and their defaults.
DEFAULTS: Mapping[str, str] = {
    "huber_a": "0.2",
    "loss_type": "huber",
    "num_iter_kirwls": "1",
    "outlier_fraction": "0.1",
    "num_blocks": "5",
}


def rkde(options: Mapping[str, str]) -> Rkde:
    loss = {"huber": Rkde(), "hampel": Rkde(loss="hampel")}[options["loss_type"]]
    num_iterations = int(options["num_iter_kirwls"])
    return replace(loss, threshold=float(options["huber_a"]), num_iterations=num_iterations, formula="released")


def spkde(options: Mapping[str, str]) -> Spkde:
    return Spkde(beta=1 / (1 - float(options["outlier_fraction"])), formula="released")


def mom(options: Mapping[str, str]) -> Mom:
    fraction = 1 - float(options["outlier_fraction"])
    return Mom(num_blocks=int(options["num_blocks"]), block_fraction=fraction, formula="released")


def fourier_mom(options: Mapping[str, str]) -> FourierMom:
    base = mom(options)
    return FourierMom(num_blocks=base.num_blocks, block_fraction=base.block_fraction, formula="released", power=4)


# What imagenet/models.py, commit d0eb5eb, makes of a --model and the options.
MODELS: Mapping[str, Callable[[Mapping[str, str]], Declaration]] = {
    "deit_tiny_patch16_224": lambda options: Softmax(),
    "deit_tiny_distilled_patch16_224": lambda options: Softmax(),
    "deit_robust_tiny_patch16_224": rkde,
    "deit_robust_small_patch16_224": rkde,
    "deit_rvt_tiny_patch16_224": lambda options: Rvt(formula="released"),
    "deit_spkde_tiny_patch16_224": spkde,
    "deit_mom_tiny_patch16_224": mom,
    "deit_mom_fourier_tiny_patch16_224": fourier_mom,
}


def options_of(name: str) -> dict[str, str]:
    """Return the options that the command of an entry gives, by name."""
    text = " ".join(ENTRIES[name].weights.how_to_get.split())
    return dict(re.findall(r"--(\w+) ([\w.]+?)(?=[\s),]|\.?$)", text))


def attention_of(name: str) -> Declaration:
    architecture = ENTRIES[name].architecture
    assert isinstance(architecture, Vit)
    return architecture.attention


TRAINED = sorted(
    name for name in ENTRIES if "robust_transformer" in ENTRIES[name].weights.how_to_get and options_of(name)
)


def agree(one: Declaration, other: Declaration) -> bool:
    """Tell whether two declarations have the same fields, numbers up to 1e-9."""
    if type(one) is not type(other):
        return False
    fields = [(getattr(one, field), getattr(other, field)) for field in one.__dataclass_fields__]
    return all(a == pytest.approx(b, rel=1e-9) if isinstance(a, float) else a == b for a, b in fields)


def test_all_entries_whose_command_is_that_of_robust_kde_are_checked() -> None:
    assert {"rvt-vit-tiny", "spkde-vit-tiny", "mom-vit-tiny", "fourierformer-mom-vit-tiny"} <= set(TRAINED)
    assert {"rkde-huber-vit-tiny", "rkde-hampel-vit-tiny", "vit-tiny-baseline-robust-kde"} <= set(TRAINED)


@pytest.mark.parametrize("name", TRAINED)
def test_a_command_trains_what_its_entry_builds(name: str) -> None:
    options = options_of(name)
    assert set(options) <= {"model", *DEFAULTS}
    trained = MODELS[options["model"]](DEFAULTS | options)
    assert agree(trained, attention_of(name)), f"the command trains {trained}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("spkde-vit-tiny", {"outlier_fraction"}),
        ("mom-vit-tiny", {"outlier_fraction", "num_blocks"}),
        ("fourierformer-mom-vit-tiny", {"outlier_fraction", "num_blocks"}),
    ],
)
def test_a_command_leaves_no_setting_of_its_entry_to_a_default(name: str, said: set[str]) -> None:
    assert said <= set(options_of(name))
