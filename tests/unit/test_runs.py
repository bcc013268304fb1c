"""Requests of runs: devices, workers, models as a Python program may give them, and what is refused at once."""

from collections import UserDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import nn

from examples import CHECKPOINT
from robench.api import load_suite
from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.core.suite import Suite
from robench.declarations.preprocessing import ImagePreprocessing, NoPreprocessing
from robench.declare import find_suite
from robench.runs import ChosenModels, RunRequest, choose_models, choose_workers, devices
from robench.runs.chosen_models import names_of

SUITE: Suite = find_suite("digits-adv")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cores")
class TestWithoutGpu:
    @pytest.fixture(autouse=True)
    def _no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def test_there_is_a_worker_for_each_core(self) -> None:
        workers = choose_workers("auto", None, "auto")
        assert workers.devices == ("cpu",) * 8
        assert not workers.in_process
        assert workers.decode_workers == 1

    def test_as_many_as_asked_for(self) -> None:
        assert choose_workers("cpu", 3, "auto").devices == ("cpu",) * 3

    def test_one_worker_needs_no_process_unless_it_is_asked_for(self) -> None:
        assert choose_workers("cpu", 1, "auto").in_process
        assert not choose_workers("cpu", 1, "processes").in_process
        assert choose_workers("cpu", None, "serial").in_process

    def test_with_a_limit_of_time_even_one_worker_is_a_process(self) -> None:
        assert not choose_workers("cpu", 1, "auto", 5.0).in_process
        assert choose_workers("cpu", None, "serial").in_process

    def test_cores_that_do_not_measure_decode(self) -> None:
        assert choose_workers("cpu", 2, "auto").decode_workers == 4

    @pytest.mark.parametrize("device", ["cuda", "cuda:0", "tpu", "CPU"])
    def test_an_absent_device_is_refused_with_those_that_there_are(self, device: str) -> None:
        with pytest.raises(UsageError, match=rf"no device '{device}' on this machine; there is: cpu$"):
            choose_workers(device, None, "auto")


@pytest.mark.usefixtures("two_gpus", "eight_cores")
class TestWithGpus:
    @pytest.mark.parametrize("device", ["auto", "cuda"])
    def test_there_is_a_worker_for_each_gpu(self, device: str) -> None:
        workers = choose_workers(device, None, "auto")
        assert workers.devices == ("cuda:0", "cuda:1")
        assert workers.decode_workers == 4

    def test_more_workers_share_the_gpus_in_turn(self) -> None:
        assert choose_workers("cuda", 3, "auto").devices == ("cuda:0", "cuda:1", "cuda:0")

    def test_one_gpu_can_be_named_and_is_used_in_this_process(self) -> None:
        workers = choose_workers("cuda:1", None, "auto")
        assert (workers.devices, workers.in_process) == (("cuda:1",), True)

    def test_the_cpu_can_still_be_asked_for(self) -> None:
        assert set(choose_workers("cpu", None, "auto").devices) == {"cpu"}

    def test_an_absent_gpu_is_refused_with_those_that_there_are(self) -> None:
        with pytest.raises(UsageError, match="there is: cpu, cuda, cuda:0, cuda:1"):
            choose_workers("cuda:2", None, "auto")


class TestRequest:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"limit": 0}, "--limit must be at least 1, got 0"),
            ({"workers": 0}, "--workers must be at least 1, got 0"),
            ({"executor": "serial", "workers": 2}, "leave one of them out"),
            ({"shard_timeout": 0.0}, "--shard-timeout must be a number of seconds above 0, got 0.0"),
            ({"shard_timeout": float("nan")}, "--shard-timeout must be a number of seconds above 0, got nan"),
            ({"shard_timeout": 5.0, "executor": "serial"}, "--shard-timeout; leave one of them out"),
            ({"suites": (SUITE, SUITE)}, "two of the suites are named digits-adv"),
            ({"checkpoints": (replace(CHECKPOINT, task="language"),)}, "classification, but model 'm' is for language"),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_what_cannot_be_met_is_refused(self, changes: dict[str, Any], message: str) -> None:
        fields: dict[str, Any] = {"suites": (SUITE,), "checkpoints": (CHECKPOINT,)}
        with pytest.raises(UsageError, match=message):
            RunRequest(**(fields | changes))

    def test_what_is_not_said_takes_its_default(self) -> None:
        request = RunRequest(suites=(SUITE,), checkpoints=(CHECKPOINT,), data_root=Path("data"))
        assert (request.device, request.executor, request.workers, request.limit) == ("auto", "auto", None, None)


NET, OTHER = nn.Linear(2, 2), nn.Linear(2, 3)
NORMALISED = ImagePreprocessing(mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3))
FIELDS = {"mean": [0.5, 0.4, 0.3], "std": (0.1, 0.2, 0.3)}


def chosen(models: Any, **options: Any) -> ChosenModels:
    return choose_models(models, **options)


@pytest.mark.parametrize(
    ("models", "names"),
    [
        ("digits-vit", ["digits-vit"]),
        (["digits-vit", "digits-symvit", "digits-vit"], ["digits-vit", "digits-symvit"]),
        (("digits-symvit",), ["digits-symvit"]),
        ({"mine": NET}, ["mine"]),
        (UserDict({"mine": NET, "other": OTHER}), ["mine", "other"]),
        ([{"mine": NET}, "digits-vit", {"other": OTHER}], ["mine", "digits-vit", "other"]),
        ([{"mine": NET}, {"mine": NET}], ["mine"]),
        ([], []),
        ({}, []),
    ],
    ids=str,
)
def test_names_and_modules_come_in_the_order_in_which_they_are_given(models: Any, names: Sequence[str]) -> None:
    found = chosen(models)
    assert [each.name for each in found.checkpoints] == names == names_of(models)
    assert found.modules == {name: module for name, module in [("mine", NET), ("other", OTHER)] if name in names}


def test_a_string_is_one_name_and_not_its_characters() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown model 'digit-vit'. Did you mean 'digits-vit'"):
        chosen("digit-vit")


@pytest.mark.parametrize("given", [NORMALISED, FIELDS, {"kind": "image", **FIELDS}], ids=["object", "fields", "kind"])
def test_a_preprocessing_is_an_object_or_its_fields(given: Any) -> None:
    (checkpoint,) = chosen({"mine": (NET, given)}).checkpoints
    assert checkpoint.preprocessing == NORMALISED


def test_a_module_alone_gets_pixels_and_one_of_timm_its_own_normalisation() -> None:
    models = chosen({"mine": NET, "net": timm.create_model("resnet10t", num_classes=10)}).checkpoints
    pixels = ImagePreprocessing(mean=(), std=())
    assert models[0].preprocessing == pixels
    assert models[1].preprocessing == ImagePreprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def test_a_module_has_the_task_and_the_inputs_of_its_suite() -> None:
    suite = replace(load_suite("sotu-eras-swap"), task="guessing")
    (checkpoint, named) = chosen([{"mine": NET}, "digits-vit"], suite=suite).checkpoints
    assert (checkpoint.task, named.task) == ("guessing", "classification")
    assert checkpoint.preprocessing == NoPreprocessing(inputs="texts")


def test_an_entry_says_that_its_model_is_in_memory() -> None:
    (checkpoint,) = chosen({"mine": NET}).checkpoints
    found = checkpoint.architecture.kind, checkpoint.weights.uri, checkpoint.task
    assert found == ("in-memory", "in memory", "classification")
    assert checkpoint.expected == {}
    assert not checkpoint.coupled


REFUSED: dict[str, tuple[Any, str]] = {
    "a module without a name": (NET, "models is a Linear without a name: give it one, {'my-model': module}"),
    "a sequential module": (nn.Sequential(), "models is a Sequential without a name"),
    "nothing": (None, "models is of type NoneType, expected a name of the registry, a mapping from names to modules"),
    "a set": ({"digits-vit"}, "models is of type set, expected a name"),
    "bytes": (b"digits-vit", "models is of type bytes, expected a name"),
    "a path in a list": ([Path("m")], "models[0] is of type PosixPath, expected a name"),
    "a module in a list": (["digits-vit", NET], "models[1] is of type Linear, expected a name"),
    "a name of another form": ({"My Net": NET}, "the name of a model in memory must be 1 to 64 of a-z, 0-9"),
    "an empty name": ({"": NET}, "must be 1 to 64 of a-z"),
    "a name that is no text": ({3: NET}, "the name of a model in memory must be text, got int"),
    "no module": ({"mine": "digits-vit"}, "model 'mine' is of type str, expected a torch.nn.Module or (module, prepro"),
    "a function": ({"mine": len}, "model 'mine' is of type builtin_function_or_method, expected a torch.nn.Module"),
    "a class": ({"mine": nn.ReLU}, "model 'mine' is the class ReLU, expected an instance of it: call it"),
    "three parts": ({"mine": (NET, FIELDS, 1)}, "model 'mine' is of type tuple, expected a torch.nn.Module or"),
    "parts in the other order": ({"mine": (NORMALISED, NET)}, "model 'mine' is of type tuple, expected"),
    "a preprocessing that is none": ({"mine": (NET, 0.5)}, "the preprocessing of model 'mine' is of type float"),
    "one name twice": ([{"mine": NET}, {"mine": OTHER}], "two modules are given under the name 'mine'"),
    "a registered name": (
        ["digits-vit", {"digits-vit": NET}],
        "model 'digits-vit' is given both by name and in memory; give the module another name",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused(name: str) -> None:
    models, message = REFUSED[name]
    with pytest.raises(UsageError) as caught:
        chosen(models)
    assert str(caught.value).startswith(message) or message in str(caught.value)


def test_a_name_of_the_registry_that_is_not_asked_for_may_be_given() -> None:
    assert chosen({"digits-vit": NET}).checkpoints[0].architecture.kind == "in-memory"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": [0.5] * 3}, "std"),
        ({**FIELDS, "sdt": 1}, "Did you mean 'std'"),
        ({**FIELDS, "mean": [125, 125, 125]}, r"must lie in \[0, 1\] in every channel"),
        ({**FIELDS, "std": [0, 1, 1]}, "must be above 0 in every channel"),
        ({**FIELDS, "mean": [0.5]}, "mean"),
        ({**FIELDS, "kind": "text"}, "unknown preprocessing"),
    ],
)
def test_what_is_wrong_with_a_preprocessing_is_listed(fields: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        chosen({"mine": (NET, fields)})
    assert "preprocessing of model 'mine'" in str(caught.value)


class TestKeys:
    def test_a_text_is_that_of_the_one_model(self) -> None:
        first, second = (chosen({"mine": module}, key="k").checkpoints[0] for module in (NET, OTHER))
        assert first.weights.sha256 == second.weights.sha256 != chosen({"mine": NET}).checkpoints[0].weights.sha256

    def test_a_mapping_is_by_name_and_leaves_others_to_their_digests(self) -> None:
        models = chosen({"mine": NET, "other": OTHER}, key={"mine": "k"}).checkpoints
        assert models[0].weights.sha256 == chosen({"x": NET}, key="k").checkpoints[0].weights.sha256
        assert models[1].weights.sha256 == chosen({"x": OTHER}).checkpoints[0].weights.sha256

    @pytest.mark.parametrize(
        ("models", "key", "message"),
        [
            ("digits-vit", "k", "one model in memory, but no models in memory were given; give a mapping by name"),
            ({"a": NET, "b": OTHER}, "k", "one model in memory, but there are 2 of them"),
            ({"a": NET}, {"b": "k"}, "key names 'b', which is not a model in memory; there are: a"),
            ("digits-vit", {"digits-vit": "k"}, "key names 'digits-vit', which is not a model in memory; there are"),
            ({"a": NET}, "", "the key of model 'a' must be a text that is not empty, got ''"),
            ({"a": NET}, {"a": 3}, "the key of model 'a' must be a text that is not empty, got 3"),
            ({"a": NET}, 3, "key is of type int, expected a text, or a mapping from names to texts"),
        ],
    )
    def test_other_keys_are_refused(self, models: Any, key: Any, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            chosen(models, key=key)
        assert message in str(caught.value)

    def test_what_needs_a_key_says_so_with_its_name(self) -> None:
        net = nn.Sequential(nn.ReLU())
        net[0].register_forward_hook(lambda *_: None)
        with pytest.raises(UsageError, match=r"model 'hooked' .* submodule 0 \(ReLU\) has a hook .*key=\{'hooked'"):
            chosen({"mine": NET, "hooked": net})
        assert len(chosen({"mine": NET, "hooked": net}, key={"hooked": "v1"}).checkpoints) == 2


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"workers": 2}, "2 workers"),
        ({"executor": "processes"}, "executor 'processes'"),
        ({"shard_timeout": 5.0}, "shard_timeout 5"),
        ({"workers": 4, "shard_timeout": 0.5}, "4 workers and shard_timeout 0.5"),
    ],
)
def test_a_module_cannot_be_measured_by_other_processes(options: dict[str, Any], asked: str) -> None:
    found = chosen({"mine": NET})
    with pytest.raises(UsageError) as caught:
        RunRequest(suites=(SUITE,), checkpoints=found.checkpoints, modules=found.modules, **options)
    assert str(caught.value) == (
        f"model 'mine' is in memory, where no other process can measure it, but the run has {asked}; leave that out, "
        "or declare the model in a registry file"
    )
