"""Language models of the papers' authors, which their code saves as whole modules, as weights of ``language``.

The authors' code is lmtool-fwp (``src/mem_transformer.py``), after Transformer-XL, and its descendants: those of RPC
(KPCA-S), Twicing and Robust KDE. They agree with robench's model up to names, but for:

- ``q_net`` and ``kv_net``, in its rows keys before values, are robench's ``qkv``. They and ``o_net`` have no bias,
  robench's is then zero. The symmetric models have a ``q_net`` that they do not use.
- Cluster i of the adaptive softmax, from 1, is read from entry -i of the head: robench has the clusters in reverse.
- Positions count down to 0 at the last word of a window (``positions: backward``). Where a text is shorter than a
  window, robench counts from where the window would end, and the authors' code from the end of the text.

Tensors do not tell the number of heads, the cutoffs and whether a LayerNorm comes first. These are attributes of the
modules, and compared with the declared model. Which attention a module computes is in its class alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from robench.core.errors import WeightsError
from robench.models.inert_pickle import SCALARS, Value
from robench.models.saved_modules import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from robench.models.language import Language
    from robench.models.saved_modules import SavedModule

EMBEDDING: Final = "word_emb.emb_layers.0.weight"
_TIED: Final = "crit.out_layers.0.weight"
_FREQUENCIES: Final = "pos_emb.inv_freq"
_ACTIVATIONS: Final = {"relu": "ReLU", "gelu": "GELU"}
_EPSILON: Final = 1e-5
_MOST_SHOWN: Final = 20
_MOST_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedWeights:
    """Weights by robench's names, and what of the file is not among them.

    Attributes:
        tensors: the weights; the vocabulary, which the file has not, is absent.
        left_out: names in the file of tensors that are not needed, with the reason.
    """

    tensors: Mapping[str, Tensor]
    left_out: Mapping[str, str]


def language_weights(
    saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor], title: str
) -> ConvertedWeights:
    """Return the weights of a model of the authors' code under robench's names.

    Args:
        saved: the module in the authors' file.
        architecture: the declared model.
        wanted: its tensors by name, of which the shapes of the attentions' are read.
        title: name of the file in messages.

    Raises:
        WeightsError: a setting or size differs from the declared, the output is not tied to the embedding, or tensors
            are missing or have no counterpart. The message lists all that was found of the first of these kinds.
    """
    if problems := [*_settings_that_differ(saved, architecture)]:
        raise WeightsError(
            f"{title} is of another model than the declared one: {'; '.join(problems)}. Correct the architecture of the"
            " entry"
        )
    left_out = _left_out(saved, architecture, wanted)
    sources = _sources(saved, architecture, wanted)
    missing = [name for names in sources.values() for name in names if name not in saved.tensors]
    used = {name for names in sources.values() for name in names}
    others = [name for name in saved.tensors if name not in used and name not in left_out and name != _TIED]
    if _TIED not in saved.tensors:
        missing.append(_TIED)
    if missing or others:
        found = [f"{len(missing)} tensors are missing: {listed(missing)}"] if missing else []
        found += [f"{len(others)} tensors have no counterpart: {listed(others)}"] if others else []
        raise WeightsError(
            f"{title} does not fit the declared model: {'; '.join(found)}. Wanted is a model of lmtool-fwp's code with"
            f" {architecture.depth} layers and attention {architecture.attention.kind}"
        )
    if sizes := [*_sizes_that_differ(sources, saved, wanted)]:
        raise WeightsError(f"{title} has other sizes than the declared model: {listed(sizes)}. Correct the entry")
    if not _are_equal(saved.tensors[_TIED], saved.tensors[EMBEDDING]):
        raise WeightsError(
            f"{title}: {_TIED} differs from {EMBEDDING}, wanted the same, as robench's output is tied to the embedding"
        )
    tensors = {name: torch.cat([saved.tensors[each] for each in names]) for name, names in sources.items()}
    for name in ("output.cluster_weight", "output.cluster_bias"):
        if name in tensors:
            tensors[name] = tensors[name].flip(0)
    return ConvertedWeights(tensors=tensors | _zero_biases(tensors, wanted), left_out=left_out)


def _sources(saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor]) -> dict[str, tuple[str, ...]]:
    """Return for each of robench's names those of the file, whose rows follow each other in it."""
    sources: dict[str, tuple[str, ...]] = {
        "embedding.weight": (EMBEDDING,),
        "output.bias": ("crit.out_layers.0.bias",),
    }
    if architecture.cutoffs:
        sources |= {f"output.{name}": (f"crit.{name}",) for name in ("cluster_weight", "cluster_bias")}
    for layer in range(architecture.depth):
        ours, theirs = f"blocks.{layer}", f"layers.{layer}"
        attention = f"{theirs}.dec_attn"
        used = [f"{attention}.{each}" for each in ("q_net", "kv_net")]
        if not _has_queries(architecture, wanted, layer):
            used = used[1:]
        sources[f"{ours}.attn.qkv.weight"] = tuple(f"{each}.weight" for each in used)
        sources[f"{ours}.attn.proj.weight"] = (f"{attention}.o_net.weight",)
        if any(f"{each}.bias" in saved.tensors for each in used):
            sources[f"{ours}.attn.qkv.bias"] = tuple(f"{each}.bias" for each in used)
        if f"{attention}.o_net.bias" in saved.tensors:
            sources[f"{ours}.attn.proj.bias"] = (f"{attention}.o_net.bias",)
        for our, their in _SAME_FORM.items():
            for kind in ("weight", "bias"):
                sources[f"{ours}.{our}.{kind}"] = (f"{theirs}.{their}.{kind}",)
    return sources


# Parts of a layer that have weight and bias in both.
_SAME_FORM: Final[Mapping[str, str]] = {
    "norm1": "dec_attn.layer_norm",
    "mlp.0": "pos_ff.CoreNet.0",
    "mlp.2": "pos_ff.CoreNet.3",
    "norm2": "pos_ff.layer_norm",
}


def _left_out(saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the names of tensors that the declared model has no need of, with the reason."""
    left_out = {_FREQUENCIES: "positions are computed"} if _FREQUENCIES in saved.tensors else {}
    reason = f"attention {architecture.attention.kind} has no queries of its own"
    for layer in range(architecture.depth):
        if not _has_queries(architecture, wanted, layer):
            names = [f"layers.{layer}.dec_attn.q_net.{kind}" for kind in ("weight", "bias")]
            left_out |= {name: reason for name in names if name in saved.tensors}
    return left_out


def _has_queries(architecture: Language, wanted: Mapping[str, Tensor], layer: int) -> bool:
    """Return whether the declared attention projects more than keys and values."""
    projections = wanted.get(f"blocks.{layer}.attn.qkv.weight")
    return projections is None or len(projections) > 2 * architecture.dim


def _sizes_that_differ(
    sources: Mapping[str, tuple[str, ...]], saved: SavedModule, wanted: Mapping[str, Tensor]
) -> Iterator[str]:
    for name, theirs in sources.items():
        shapes = [tuple(saved.tensors[each].shape) for each in theirs]
        ours = tuple(wanted[name].shape) if name in wanted else ()
        rows = sum(shape[0] for shape in shapes if shape)
        if not all(shapes) or any(shape[1:] != ours[1:] for shape in shapes) or (rows, *ours[1:]) != ours:
            found = " and ".join(f"{each} {shape}" for each, shape in zip(theirs, shapes, strict=True))
            yield f"{found}, wanted {ours if ours else 'none'}"


def _zero_biases(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return zeros for biases of the attention's projections that the file has not."""
    kinds = (".attn.qkv.bias", ".attn.proj.bias")
    dtype = tensors["embedding.weight"].dtype
    return {
        name: torch.zeros(tensor.shape, dtype=dtype)
        for name, tensor in wanted.items()
        if name.endswith(kinds) and name not in tensors
    }


def _settings_that_differ(saved: SavedModule, architecture: Language) -> Iterator[str]:
    """Yield a clause for each setting in the file that the declared model contradicts."""
    if architecture.norm != "post":
        yield "the entry has norm pre, robench reads models of the authors' code with norm post alone"
    if architecture.positions != "backward":
        yield "the entry has positions forward, but the authors' code counts them backward"
    yield from _differing(saved, "", "n_head", architecture.num_heads, "num_heads")
    yield from _differing(saved, "crit", "cutoffs", [*architecture.cutoffs, architecture.vocabulary_size], "cutoffs")
    yield from _differing(saved, "crit", "div_val", 1, "no div_val but 1")
    clamped = saved.setting("", "clamp_len")
    if type(clamped) is int and 0 < clamped < architecture.context - 1:
        yield f"its positions end at {clamped} (clamp_len), in the entry at {architecture.context - 1}"
    for setting in ("no_pos", "same_length"):
        if saved.setting("", setting):
            yield f"{setting} is set, which robench's model has not"
    if _FREQUENCIES in saved.tensors and not _is_as_computed(saved.tensors[_FREQUENCIES], architecture.dim):
        yield f"{_FREQUENCIES} are not the frequencies of sinusoidal positions of {architecture.dim} channels"
    for layer in range(architecture.depth):
        yield from _differing_in_layer(saved, architecture, f"layers.{layer}")


def _differing_in_layer(saved: SavedModule, architecture: Language, layer: str) -> Iterator[str]:
    if saved.has(f"{layer}.dec_attn", "n_head"):
        yield from _differing(saved, f"{layer}.dec_attn", "n_head", architecture.num_heads, "num_heads")
    for part in ("dec_attn", "pos_ff"):
        if saved.setting(f"{layer}.{part}", "pre_lnorm"):
            yield f"{layer}.{part} has its LayerNorm first (pre_lnorm), in the entry it comes last (norm post)"
        norm = f"{layer}.{part}.layer_norm"
        if norm in saved.parts:
            yield from _differing(saved, norm, "eps", _EPSILON, "layer_norm")
    activation = saved.parts.get(f"{layer}.pos_ff.CoreNet.1")
    if activation is not None and activation.of.name != _ACTIVATIONS[architecture.activation]:
        yield f"{layer}.pos_ff has activation {activation.of.name:.40}, the entry {architecture.activation}"


def _differing(saved: SavedModule, part: str, setting: str, wanted: Value, field: str) -> Iterator[str]:
    found = saved.setting(part, setting)
    shown = f"{part}.{setting}".lstrip(".")
    if not saved.has(part, setting):
        yield f"it has no {shown}, which models of lmtool-fwp's code have"
    elif not _is_same(found, wanted):
        yield f"it has {shown} {_shown(found)}, the entry {field} {_shown(wanted)}"


def _is_same(found: Value, wanted: Value) -> bool:
    """Return whether a number or a list of numbers is as wanted; a value of a file may be of any type and depth."""
    if type(wanted) is not list:
        return type(found) in (int, float) and found == wanted
    return (
        type(found) in (list, tuple)
        and len(found) == len(wanted)
        and all(_is_same(one, other) for one, other in zip(found, wanted, strict=True))
    )


def _shown(value: Value) -> str:
    # Python does not write numbers of more than some thousand digits.
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"a number of more than {_MOST_BITS} bits"
    if type(value) in (list, tuple) and len(value) <= _MOST_SHOWN and all(type(each) in SCALARS for each in value):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return f"{value!r:.40}" if type(value) in SCALARS else f"of type {type(value).__name__}"


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _is_as_computed(frequencies: Tensor, dim: int) -> bool:
    wanted = 10_000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return frequencies.shape == wanted.shape and torch.allclose(frequencies.double(), wanted, rtol=1e-3, atol=0)
