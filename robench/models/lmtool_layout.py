"""Language models of the papers' authors, which their code saves as whole modules, as weights of ``language``.

The authors' code is lmtool-fwp (``src/mem_transformer.py``), after Transformer-XL, and its descendants: those of RPC
(KPCA-S), Twicing and Robust KDE. They agree with robench's model up to names, but for:

- ``q_net`` and ``kv_net``, in its rows keys before values, are robench's ``qkv``. They and ``o_net`` have no bias,
  robench's is then zero. The symmetric models have a ``q_net`` that they do not use.
- Cluster i of the adaptive softmax, from 1, is read from entry -i of the head: robench has the clusters in reverse.
- Positions count down to 0 at the last word of a window (``positions: backward``). Where a text is shorter than a
  window, robench counts from where the window would end, and the authors' code from the end of the text.

Their files hold the whole module. Its tensors are found in the dicts ``_parameters``, ``_buffers`` and ``_modules``,
which every ``torch.nn.Module`` has, and named as in its state dict. Tensors do not tell the number of heads, the
cutoffs and whether a LayerNorm comes first. These are attributes of the modules, and compared with the declared model.
Which attention a module computes is in its class alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from robench.core.errors import WeightsError
from robench.models.layouts_impl import check_count, dense
from robench.models.state_files import StandIn, load_whole
from robench.models.word_transformer import Language

EMBEDDING: Final = "word_emb.emb_layers.0.weight"
_TIED: Final = "crit.out_layers.0.weight"
_FREQUENCIES: Final = "pos_emb.inv_freq"
_ACTIVATIONS: Final = {"relu": "ReLU", "gelu": "GELU"}
_EPSILON: Final = 1e-5
_MOST_SHOWN: Final = 20
MAX_PARTS: Final = 10_000
MAX_NAME: Final = 1_000
_HELD: Final = ("_parameters", "_buffers", "_modules")
# Parts of a layer that have weight and bias in both.
_SAME_FORM: Final[Mapping[str, str]] = {
    "norm1": "dec_attn.layer_norm",
    "mlp.0": "pos_ff.CoreNet.0",
    "mlp.2": "pos_ff.CoreNet.3",
    "norm2": "pos_ff.layer_norm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModule:
    """Module of a file: its tensors by their names in the state dict, and all modules in it, itself under no name."""

    tensors: Mapping[str, Tensor]
    parts: Mapping[str, StandIn]

    def settings(self, part: str) -> Mapping[str, Any]:
        """Return a module's attributes, none if there is no such module; values may be of any type and depth."""
        return self.parts[part].state if part in self.parts else {}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes that are not torch's, sorted."""
        names = {type(part).__name__ for part in self.parts.values()}
        return tuple(sorted(name for name in names if not name.startswith("torch.")))


def load_module(path: Path) -> SavedModule:
    """Return the module of a file of torch.save(model); nothing of the file is imported or called.

    Raises:
        WeightsError: the file cannot be read, is damaged or hostile, or holds something else than one module.
    """
    parts: dict[str, StandIn] = {}
    tensors: dict[str, Tensor] = {}
    waiting: list[tuple[str, object]] = [("", load_whole(path))]
    while waiting:
        place, part = waiting.pop()
        if not isinstance(part, StandIn) or not all(isinstance(part.state.get(each), dict) for each in _HELD):
            raise WeightsError(
                f"{path}: {place or 'its content'} is of type {type(part).__name__:.80} and no whole module. A state"
                " dict needs no import, but an entry's weights.layout"
            )
        parts[place] = part
        parameters, buffers, modules = (_items(part.state, each, place, path) for each in _HELD)
        # Modules may share one dict of many others, or hold themselves.
        check_count(len(tensors) + len(parameters) + len(buffers), str(path))
        if len(parts) + len(waiting) + len(modules) > MAX_PARTS:
            raise WeightsError(f"{path} holds more than {MAX_PARTS:,} modules: is it one model?")
        tensors |= {name: dense(value, name, str(path)) for name, value in (parameters | buffers).items()}
        waiting += reversed(modules.items())
    return SavedModule(tensors=tensors, parts=parts)


def _items(state: dict[Any, Any], kind: str, place: str, path: Path) -> dict[str, Any]:
    """Return a module's own contents by their full names, without None and buffers that are not persistent."""
    items: dict[str, Any] = {}
    passing = state.get("_non_persistent_buffers_set") if kind == "_buffers" else None
    # The method of dict itself: a file can give an OrderedDict attributes that shadow its own.
    for name, value in dict.items(state[kind]):
        if type(name) is not str or not name or len(place) + len(name) >= MAX_NAME:
            raise WeightsError(
                f"{path}: a module or tensor in {place[:80] or 'it'} has a name that is not a text of 1 to {MAX_NAME}"
                " signs"
            )
        if value is not None and not (isinstance(passing, set) and name in passing):
            items[f"{place}.{name}" if place else name] = value
    return items


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedWeights:
    """Weights by robench's names, without the vocabulary, and why tensors of the file are left out, by their names."""

    tensors: Mapping[str, Tensor]
    left_out: Mapping[str, str]


def language_weights(
    saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor], title: str
) -> ConvertedWeights:
    """Return the weights of a model of the authors' code under robench's names.

    Of the model's tensors, ``wanted``, the attentions' shapes are read; ``title`` names the file in messages.

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
        found = [f"{len(missing)} tensors are missing: {_listed(missing)}"] if missing else []
        found += [f"{len(others)} tensors have no counterpart: {_listed(others)}"] if others else []
        raise WeightsError(
            f"{title} does not fit the declared model: {'; '.join(found)}. Wanted is a model of lmtool-fwp's code with"
            f" {architecture.depth} layers and attention {architecture.attention.kind}"
        )
    if sizes := [*_sizes_that_differ(sources, saved, wanted)]:
        raise WeightsError(f"{title} has other sizes than the declared model: {_listed(sizes)}. Correct the entry")
    tied, embedding = saved.tensors[_TIED], saved.tensors[EMBEDDING]
    if tied.dtype != embedding.dtype or not torch.equal(tied, embedding):
        raise WeightsError(
            f"{title}: {_TIED} differs from {EMBEDDING}, wanted the same, as robench's output is tied to the embedding"
        )
    tensors = {name: torch.cat([saved.tensors[each] for each in names]) for name, names in sources.items()}
    for name in ("output.cluster_weight", "output.cluster_bias"):
        if name in tensors:
            tensors[name] = tensors[name].flip(0)
    # Projections of the attention have no bias in the file.
    biases = [name for name in wanted if name.endswith((".attn.qkv.bias", ".attn.proj.bias")) and name not in tensors]
    zeros = {name: torch.zeros(wanted[name].shape, dtype=embedding.dtype) for name in biases}
    return ConvertedWeights(tensors=tensors | zeros, left_out=left_out)


def _sources(saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor]) -> dict[str, tuple[str, ...]]:
    """Return for each of robench's names those of the file, whose rows follow each other in it."""
    sources: dict[str, tuple[str, ...]] = {"embedding.weight": (EMBEDDING,), "output.bias": ("crit.out_layers.0.bias",)}
    if architecture.cutoffs:
        sources |= {f"output.{name}": (f"crit.{name}",) for name in ("cluster_weight", "cluster_bias")}
    for layer in range(architecture.depth):
        attention, queries = f"layers.{layer}.dec_attn", _has_queries(architecture, wanted, layer)
        for our, their in (("qkv", ("q_net", "kv_net") if queries else ("kv_net",)), ("proj", ("o_net",))):
            for kind in ("weight", "bias"):
                names = tuple(f"{attention}.{each}.{kind}" for each in their)
                if kind == "weight" or any(name in saved.tensors for name in names):
                    sources[f"blocks.{layer}.attn.{our}.{kind}"] = names
        for our, same in _SAME_FORM.items():
            sources |= {
                f"blocks.{layer}.{our}.{kind}": (f"layers.{layer}.{same}.{kind}",) for kind in ("weight", "bias")
            }
    return sources


def _left_out(saved: SavedModule, architecture: Language, wanted: Mapping[str, Tensor]) -> dict[str, str]:
    reason = f"attention {architecture.attention.kind} has no queries of its own"
    unused = [layer for layer in range(architecture.depth) if not _has_queries(architecture, wanted, layer)]
    queries = (f"layers.{layer}.dec_attn.q_net.{kind}" for layer in unused for kind in ("weight", "bias"))
    left_out = {_FREQUENCIES: "positions are computed", **dict.fromkeys(queries, reason)}
    return {name: why for name, why in left_out.items() if name in saved.tensors}


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


def _settings_that_differ(saved: SavedModule, architecture: Language) -> Iterator[str]:
    """Yield a clause for each setting in the file that the declared model contradicts."""
    if architecture.norm != "post":
        yield "the entry has norm pre, robench reads models of the authors' code with norm post alone"
    if architecture.positions != "backward":
        yield "the entry has positions forward, but the authors' code counts them backward"
    cutoffs = [*architecture.cutoffs, architecture.vocabulary_size]
    yield from _differing(saved, "", "n_head", architecture.num_heads, "num_heads")
    yield from _differing(saved, "crit", "cutoffs", cutoffs, "cutoffs")
    yield from _differing(saved, "crit", "div_val", 1, "no div_val but")
    clamped = saved.settings("").get("clamp_len")
    if type(clamped) is int and 0 < clamped < architecture.context - 1:
        yield f"its positions end at {clamped} (clamp_len), in the entry at {architecture.context - 1}"
    for setting in ("no_pos", "same_length"):
        if _is_set(saved, "", setting):
            yield f"{setting} is set, which robench's model has not"
    if _FREQUENCIES in saved.tensors and not _is_as_computed(saved.tensors[_FREQUENCIES], architecture.dim):
        yield f"{_FREQUENCIES} are not the frequencies of sinusoidal positions of {architecture.dim} channels"
    for layer in range(architecture.depth):
        yield from _differing_in_layer(saved, architecture, f"layers.{layer}")


def _differing_in_layer(saved: SavedModule, architecture: Language, layer: str) -> Iterator[str]:
    if "n_head" in saved.settings(f"{layer}.dec_attn"):
        yield from _differing(saved, f"{layer}.dec_attn", "n_head", architecture.num_heads, "num_heads")
    for part in (f"{layer}.dec_attn", f"{layer}.pos_ff"):
        if _is_set(saved, part, "pre_lnorm"):
            yield f"{part} has its LayerNorm first (pre_lnorm), in the entry it comes last (norm post)"
        if f"{part}.layer_norm" in saved.parts:
            yield from _differing(saved, f"{part}.layer_norm", "eps", _EPSILON, "layer_norm")
    if (activation := saved.parts.get(f"{layer}.pos_ff.CoreNet.1")) is not None:
        name = type(activation).__name__.rpartition(".")[2]
        if name != _ACTIVATIONS[architecture.activation]:
            yield f"{layer}.pos_ff has activation {name:.40}, the entry {architecture.activation}"


def _differing(saved: SavedModule, part: str, setting: str, wanted: object, field: str) -> Iterator[str]:
    name = f"{part}.{setting}".lstrip(".")
    settings = saved.settings(part)
    if setting not in settings:
        yield f"it has no {name}, which models of lmtool-fwp's code have"
    elif _shown(settings[setting]) != _shown(wanted):
        yield f"it has {name} {_shown(settings[setting])}, the entry {field} {_shown(wanted)}"


def _is_set(saved: SavedModule, part: str, setting: str) -> bool:
    return _shown(saved.settings(part).get(setting)) not in ("None", "False", "0")


def _shown(value: Any) -> str:
    """Return a number or a list of numbers as text, which differs where they do; a file's value may be of any type."""
    if type(value) in (str, int, float, bool, type(None)):
        return f"{value!r:.40}"
    if (
        type(value) in (list, tuple)
        and len(value) <= _MOST_SHOWN
        and not any(isinstance(each, tuple | list | dict | set) for each in value)
    ):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return f"of type {type(value).__name__:.80}"


def _is_as_computed(frequencies: Tensor, dim: int) -> bool:
    wanted = 10_000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return frequencies.shape == wanted.shape and torch.allclose(frequencies.double(), wanted, rtol=1e-3, atol=0)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
