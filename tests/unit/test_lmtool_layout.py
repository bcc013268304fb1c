"""Authors' language models, saved whole: tensors, settings, and losses that equal those of the authors' computation."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from authors_language_models import (
    CONTEXT,
    CUTOFFS,
    DEPTH,
    DIM,
    HEADS,
    INNER,
    VOCABULARY,
    MemTransformerLM,
    made,
    save_whole,
)
from torch import nn

from robench.attention.symmetric import Symmetric
from robench.core.errors import WeightsError
from robench.models.build import build
from robench.models.language_impl import LanguageModel, sinusoids
from robench.models.lmtool_layout import ConvertedWeights, language_weights, load_module
from robench.models.word_transformer import Language

DECLARED = Language(
    vocabulary_size=VOCABULARY, depth=DEPTH, dim=DIM, num_heads=HEADS, feedforward=INNER, context=CONTEXT, stride=1,
    norm="post", activation="relu", positions="backward", cutoffs=CUTOFFS,
)  # fmt: skip


def converted(model: nn.Module, folder: Path, architecture: Language = DECLARED) -> ConvertedWeights:
    saved = load_module(save_whole(model, folder / "model.pt"))
    return language_weights(saved, architecture, build(architecture).state_dict(), "model.pt")


def ours(model: nn.Module, folder: Path, architecture: Language = DECLARED) -> LanguageModel:
    """robench's model with the weights of the authors'."""
    built = build(architecture).double().eval()
    assert isinstance(built, LanguageModel)
    weights = converted(model, folder, architecture)
    assert {tensor.dtype for tensor in weights.tensors.values()} == {torch.float64}
    built.load_state_dict({**weights.tensors, "vocabulary": built.vocabulary})
    return built


def problem(model: nn.Module, folder: Path, architecture: Language = DECLARED) -> str:
    with pytest.raises(WeightsError) as error:
        converted(model, folder, architecture)
    (message,) = error.value.lines
    assert "\n" not in message
    return message


# The largest that the unpickler reads.
HUGE = (1 << 2039) - 1
# All clusters, their ends included, and more words than a window has.
IDS = torch.tensor([0, 7, 8, 14, 15, 21, 22, 29, 3, 27, 12, 18, 0, 9, 23, 5])


class TestLosses:
    @pytest.mark.parametrize("cutoffs", [CUTOFFS, (9,), ()])
    @pytest.mark.parametrize("is_symmetric", [False, True])
    @torch.no_grad()
    def test_of_a_text_are_the_authors(self, tmp_path: Path, cutoffs: tuple[int, ...], *, is_symmetric: bool) -> None:
        model = made(is_symmetric=is_symmetric, cutoffs=cutoffs)
        kinds = {"attention": Symmetric()} if is_symmetric else {}
        found = ours(model, tmp_path, replace(DECLARED, cutoffs=cutoffs, **kinds))
        losses = found.losses(IDS, len(IDS) - 1, None)
        torch.testing.assert_close(losses, model.sliding_losses(IDS), rtol=0, atol=1e-9)

    @torch.no_grad()
    def test_need_the_clusters_in_reverse(self, tmp_path: Path) -> None:
        model = made()
        found = ours(model, tmp_path)
        cluster_weight = found.output.cluster_weight
        assert cluster_weight is not None
        torch.testing.assert_close(cluster_weight, model.crit.cluster_weight.flip(0), rtol=0, atol=0)
        cluster_weight.data = model.crit.cluster_weight.data
        assert not torch.allclose(found.losses(IDS, len(IDS) - 1, None), model.sliding_losses(IDS), atol=1e-3)

    @torch.no_grad()
    def test_need_positions_that_count_down(self, tmp_path: Path) -> None:
        model = made()
        found = ours(model, tmp_path)
        torch.testing.assert_close(found.positions, sinusoids(CONTEXT, DIM).double().flip(0), rtol=0, atol=0)
        found.positions = found.positions.flip(0)
        assert not torch.allclose(found.losses(IDS, len(IDS) - 1, None), model.sliding_losses(IDS), atol=1e-3)


class TestTensors:
    def test_names_are_those_of_the_state_dict(self, tmp_path: Path) -> None:
        model = made()
        found = load_module(save_whole(model, tmp_path / "x.pt"))
        wanted = model.state_dict()
        assert {*found.tensors} == {*wanted}
        for name, tensor in wanted.items():
            torch.testing.assert_close(found.tensors[name], tensor, rtol=0, atol=0)
        assert {*found.parts} == {name for name, _ in model.named_modules()}

    def test_buffers_that_are_not_persistent_are_left_out(self, tmp_path: Path) -> None:
        model = made()
        model.register_buffer("mask", torch.ones(3), persistent=False)
        assert "mask" not in load_module(save_whole(model, tmp_path / "x.pt")).tensors

    def test_values_are_concatenated_after_keys_after_queries(self, tmp_path: Path) -> None:
        model = made()
        weights = converted(model, tmp_path).tensors
        own = model.state_dict()
        wanted = torch.cat([own["layers.1.dec_attn.q_net.weight"], own["layers.1.dec_attn.kv_net.weight"]])
        torch.testing.assert_close(weights["blocks.1.attn.qkv.weight"], wanted, rtol=0, atol=0)
        for name in ("qkv", "proj"):
            assert weights[f"blocks.1.attn.{name}.bias"].count_nonzero() == 0

    def test_biases_of_projections_are_taken_where_there_are_some(self, tmp_path: Path) -> None:
        model = made()
        for layer in model.layers:
            for name, size in (("q_net", DIM), ("kv_net", 2 * DIM), ("o_net", DIM)):
                layer.dec_attn.get_submodule(name).bias = nn.Parameter(torch.randn(size).double())  # type: ignore[union-attr]
        weights, own = converted(model, tmp_path).tensors, model.state_dict()
        wanted = torch.cat([own["layers.0.dec_attn.q_net.bias"], own["layers.0.dec_attn.kv_net.bias"]])
        torch.testing.assert_close(weights["blocks.0.attn.qkv.bias"], wanted, rtol=0, atol=0)
        wanted = own["layers.0.dec_attn.o_net.bias"]
        torch.testing.assert_close(weights["blocks.0.attn.proj.bias"], wanted, rtol=0, atol=0)

    def test_a_symmetric_model_needs_no_query_in_the_file(self, tmp_path: Path) -> None:
        model = made(is_symmetric=True)
        wanted = model.sliding_losses(IDS)
        for layer in model.layers:
            del layer.dec_attn.q_net  # type: ignore[union-attr]
        found = ours(model, tmp_path, replace(DECLARED, attention=Symmetric()))
        torch.testing.assert_close(found.losses(IDS, len(IDS) - 1, None), wanted, rtol=0, atol=1e-9)


def without(path: str) -> Callable[[MemTransformerLM], None]:
    """Return a change that removes a tensor or module."""

    def change(model: MemTransformerLM) -> None:
        owner, _, name = path.rpartition(".")
        delattr(model.get_submodule(owner), name)

    return change


def setting(path: str, value: object) -> Callable[[MemTransformerLM], None]:
    """Return a change that sets an attribute."""

    def change(model: MemTransformerLM) -> None:
        owner, _, name = path.rpartition(".")
        setattr(model.get_submodule(owner), name, value)

    return change


def parameter(path: str, *shape: int) -> Callable[[MemTransformerLM], None]:
    return setting(path, nn.Parameter(torch.ones(shape, dtype=torch.float64)))


class TestProblems:
    @pytest.mark.parametrize(
        ("change", "found"),
        [
            (without("layers.1.dec_attn.q_net"), "1 tensors are missing: layers.1.dec_attn.q_net.weight."),
            (without("crit.cluster_bias"), "1 tensors are missing: crit.cluster_bias."),
            (without("crit.out_layers"), "2 tensors are missing: crit.out_layers.0.bias, crit.out_layers.0.weight."),
            (without("word_emb"), "1 tensors are missing: word_emb.emb_layers.0.weight."),
            (parameter("layers.0.dec_attn.pi", 3), "1 tensors have no counterpart: layers.0.dec_attn.pi."),
            (parameter("r_w_bias", 3), "1 tensors have no counterpart: r_w_bias."),
            (parameter("layers.0.dec_attn.kv_net.weight", 2 * DIM, DIM + 1), "kv_net.weight (16, 9), wanted (24, 8)"),
            (parameter("layers.0.dec_attn.kv_net.weight", 3 * DIM, DIM), "kv_net.weight (24, 8), wanted (24, 8)"),
            (parameter("layers.0.dec_attn.kv_net.weight"), "kv_net.weight (), wanted (24, 8)"),
            (parameter("layers.0.pos_ff.CoreNet.0.weight", INNER + 1, DIM), "weight (13, 8), wanted (12, 8)"),
            (parameter("layers.1.pos_ff.layer_norm.bias", 2), "layers.1.pos_ff.layer_norm.bias (2,), wanted (8,)"),
            (parameter("crit.cluster_weight", 2, DIM), "crit.cluster_weight (2, 8), wanted (3, 8)"),
            (
                parameter("crit.out_layers.0.weight", VOCABULARY, DIM),
                "crit.out_layers.0.weight differs from word_emb.emb_layers.0.weight, wanted the same",
            ),
            (parameter("crit.out_layers.0.weight", 3), "crit.out_layers.0.weight differs from"),
        ],
        ids=lambda value: value[:40] if isinstance(value, str) else "",
    )
    def test_tensors_are_listed(self, tmp_path: Path, change: Any, found: str) -> None:
        model = made()
        change(model)
        assert found in problem(model, tmp_path)

    def test_an_output_of_another_type_is_not_tied(self, tmp_path: Path) -> None:
        model = made()
        model.crit.out_layers[0].weight = nn.Parameter(model.word_emb.emb_layers[0].weight.detach().float())
        assert "crit.out_layers.0.weight differs from word_emb.emb_layers.0.weight" in problem(model, tmp_path)

    def test_another_number_of_layers(self, tmp_path: Path) -> None:
        more = problem(made(), tmp_path, replace(DECLARED, depth=DEPTH - 1))
        assert "11 tensors have no counterpart: layers.1.dec_attn.q_net.weight, " in more
        fewer = problem(made(), tmp_path, replace(DECLARED, depth=DEPTH + 1))
        assert "11 tensors are missing: layers.2.dec_attn.q_net.weight, " in fewer

    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({"num_heads": 4}, "it has n_head 2, the entry num_heads 4"),
            ({"cutoffs": (8, 15, 23)}, "it has crit.cutoffs [8, 15, 22, 30], the entry cutoffs [8, 15, 23, 30]"),
            ({"cutoffs": ()}, "it has crit.cutoffs [8, 15, 22, 30], the entry cutoffs [30]"),
            ({"vocabulary_size": 31}, "the entry cutoffs [8, 15, 22, 31]"),
            ({"activation": "gelu"}, "layers.0.pos_ff has activation ReLU, the entry gelu"),
            ({"norm": "pre"}, "the entry has norm pre, robench reads models of the authors' code with norm post alone"),
            ({"positions": "forward"}, "the entry has positions forward, but the authors' code counts them backward"),
            ({"dim": 16}, "pos_emb.inv_freq are not the frequencies of sinusoidal positions of 16 channels"),
        ],
        ids=str,
    )
    def test_an_entry_that_contradicts_the_file(self, tmp_path: Path, fields: dict[str, Any], found: str) -> None:
        message = problem(made(), tmp_path, replace(DECLARED, **fields))
        assert message.startswith("model.pt is of another model than the declared one: ")
        assert message.endswith("Correct the architecture of the entry")
        assert found in message

    @pytest.mark.parametrize(
        ("path", "value", "found"),
        [
            ("n_head", "2", "it has n_head '2', the entry num_heads 2"),
            ("n_head", True, "it has n_head True, the entry num_heads 2"),
            ("n_head", HUGE, f"it has n_head {HUGE!r:.40}, the entry num_heads 2"),
            ("crit.cutoffs", [HUGE], f"it has crit.cutoffs [{HUGE!r:.40}], the entry"),
            ("layers.1.dec_attn.n_head", 4, "it has layers.1.dec_attn.n_head 4, the entry num_heads 2"),
            ("n_head", [2] * 100, "it has n_head of type list, the entry num_heads 2"),
            ("crit.cutoffs", "8", "it has crit.cutoffs '8', the entry cutoffs [8, 15, 22, 30]"),
            ("crit.div_val", 4, "it has crit.div_val 4, the entry no div_val but 1"),
            ("clamp_len", CONTEXT - 2, "its positions end at 4 (clamp_len), in the entry at 5"),
            ("no_pos", True, "no_pos is set"),
            ("same_length", True, "same_length is set"),
            ("layers.1.dec_attn.pre_lnorm", True, "layers.1.dec_attn has its LayerNorm first (pre_lnorm)"),
            ("layers.0.pos_ff.pre_lnorm", True, "layers.0.pos_ff has its LayerNorm first (pre_lnorm)"),
            ("layers.0.pos_ff.layer_norm.eps", 1e-6, "pos_ff.layer_norm.eps 1e-06, the entry layer_norm 1e-05"),
            ("pos_emb.inv_freq", torch.ones(4), "pos_emb.inv_freq are not the frequencies"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_setting_that_contradicts_the_entry(self, tmp_path: Path, path: str, value: object, found: str) -> None:
        model = made()
        setting(path, value)(model)
        assert found in problem(model, tmp_path)

    @pytest.mark.parametrize("path", ["n_head", "crit.cutoffs", "crit.div_val"])
    def test_a_setting_that_no_tensor_tells_must_be_there(self, tmp_path: Path, path: str) -> None:
        model = made()
        without(path)(model)
        assert f"it has no {path}, which models of lmtool-fwp's code have" in problem(model, tmp_path)

    @pytest.mark.parametrize("clamped", [-1, 0, CONTEXT - 1, 256])
    def test_positions_that_are_clamped_beyond_the_window_are_the_same(self, tmp_path: Path, clamped: int) -> None:
        model = made()
        model.clamp_len = clamped
        assert converted(model, tmp_path).tensors

    def test_settings_of_any_depth_are_compared_without_walking_them(self, tmp_path: Path) -> None:
        model, laughs = made(), (1,)
        for _ in range(200):
            laughs = (laughs, laughs)  # type: ignore[assignment]
        for path in ("crit.cutoffs", "n_head", "clamp_len", "crit.div_val"):
            setting(path, laughs)(model)
        assert "it has crit.cutoffs of type tuple, the entry cutoffs [8, 15, 22, 30]" in problem(model, tmp_path)


class TestModules:
    """Whole modules of other forms."""

    def problem(self, content: object, folder: Path) -> str:
        if isinstance(content, nn.Module):
            save_whole(content, folder / "x.pt")
        else:
            torch.save(content, folder / "x.pt")
        with pytest.raises(WeightsError) as error:
            load_module(folder / "x.pt")
        (message,) = error.value.lines
        assert message.startswith(f"{folder / 'x.pt'}")
        return message

    @pytest.mark.parametrize(
        "content", [made().state_dict(), None, 3, [made], torch.ones(3), torch.optim.SGD([torch.ones(1)])]
    )
    def test_other_values_are_no_modules(self, tmp_path: Path, content: object) -> None:
        assert "and no whole module. A state dict needs no import" in self.problem(content, tmp_path)

    def test_a_part_that_is_no_module(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.ReLU())
        model._modules["1"] = [1]  # type: ignore[assignment]
        assert "1 is of type list and no whole module" in self.problem(model, tmp_path)

    @pytest.mark.parametrize("value", [{"a": 1}, nn.UninitializedParameter(), torch.eye(2).to_sparse(), nn.ReLU()])
    def test_a_parameter_that_is_no_dense_tensor(self, tmp_path: Path, value: object) -> None:
        model = nn.Sequential(nn.ReLU())
        model[0]._parameters["weight"] = value  # type: ignore[assignment]
        message = self.problem(model, tmp_path)
        assert "'0.weight' is " in message
        assert "wanted a dense tensor" in message

    @pytest.mark.parametrize("name", ["", "a" * 1001, 3])
    def test_names_are_short_texts(self, tmp_path: Path, name: Any) -> None:
        model = nn.ReLU()
        model._modules[name] = nn.ReLU()
        assert "has a name that is not a text of 1 to 1000 signs" in self.problem(model, tmp_path)

    def test_a_module_within_itself(self, tmp_path: Path) -> None:
        model = nn.Sequential(nn.ReLU())
        model._modules["1"] = model
        assert "has a name that is not a text of 1 to 1000 signs" in self.problem(model, tmp_path)

    def test_modules_that_share_a_dict_of_many(self, tmp_path: Path) -> None:
        model = nn.Sequential(*(nn.Sequential() for _ in range(100)))
        shared = {str(number): nn.ReLU() for number in range(101)}
        for part in model:
            part._modules = shared  # type: ignore[assignment]
        assert "holds more than 10,000 modules" in self.problem(model, tmp_path)

    def test_modules_that_share_many_tensors(self, tmp_path: Path) -> None:
        model = nn.Sequential(*(nn.Sequential() for _ in range(100)))
        shared = dict.fromkeys(map(str, range(101)), nn.Parameter(torch.ones(1)))
        for part in model:
            part._parameters = shared  # type: ignore[assignment]
        assert "at most 10000 are read" in self.problem(model, tmp_path)
