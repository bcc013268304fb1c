"""Classifiers under test: pixels in [0, 1] in, logits out, with normalisation inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from robench.core.containment import KeptSettings
from robench.core.declared import Preprocessing
from robench.core.errors import ContractError, DeclarationError
from robench.core.protocols import ShownLayer
from robench.core.seeds import LazySeeds
from robench.core.shard import EXACT_DTYPE
from robench.domains import CHANNELS, DOMAINS
from robench.models.backward_rules_impl import followers_of, following
from robench.models.precision import ADVICE, Arithmetic, CompiledPasses, arithmetic_of, check_device, running_in
from robench.models.shown import as_leaves, showing
from robench.tasks.base import Task
from robench.tasks.classification import CLASSIFICATION

IS_TRAINING = attrgetter("training")


class LoadedModel:
    """Frozen classifier in float32 and evaluation mode; implements ``core.protocols.Model``.

    The module is modified: it is moved to the device, and its parameters no longer require gradients. In the place of
    padding it gets zeros, and one with a true ``takes_masks`` gets ``mask_BN``, (B, N) booleans that are false there.

    Attributes:
        takes_seeds: whether the model declares that its random numbers, if any, come from seeds alone.
        words: all words that a language model gives probabilities to, if its module or a part of it lists them as
            ``words``; else none.
        scores_pieces: whether a language model declares that its losses are those of texts, piece by piece of any word.
        has_tokenizer: whether a tokenizer decides what the model reads of a text (``reading``).
        takes_targets: whether it declares that it scores given targets, a parameter ``targets`` of its ``forward``.
        device: device that inputs must be on; ``domain``: the domain of inputs.
        normalisation: mean and standard deviation, in shapes that go with inputs, as (C, 1, 1).
    """

    def __init__(
        self,
        module: nn.Module,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        task: Task = CLASSIFICATION,
    ) -> None:
        self._module = module.to(device=device, dtype=torch.float32)
        self._module.eval()
        self._module.requires_grad_(False)
        # A module declares it by an attribute; its output for a row may then depend on that row's seed.
        self.takes_seeds = bool(getattr(module, "takes_seeds", False))
        self.takes_targets = bool(getattr(module, "takes_targets", False))
        self.scores_pieces = bool(getattr(module, "scores_pieces", False))
        self.has_tokenizer = callable(getattr(module, "text_reading", None))
        self._takes_masks = bool(getattr(module, "takes_masks", False))
        self._submodules = tuple(self._module.modules())
        self.words = next((each for part in self._submodules if (each := _words_of(part))), ())
        self.domain = DOMAINS[preprocessing.domain]
        self._num_channels = preprocessing.num_channels
        self._as_given = Normaliser(module, preprocessing, device)
        self.normalisation = self._as_given.mean, self._as_given.std
        self.device = self._as_given.mean.device
        self._rules = task.rules
        self._arithmetic: Arithmetic | None = None
        self._backward: str | None = None
        # Shared by all copies, since compiling takes long.
        self._compiled = CompiledPasses(self._module, takes_seeds=self.takes_seeds)

    @property
    def module(self) -> nn.Module:
        """Return the module itself, for hooks."""
        return self._module

    @property
    def is_compiled(self) -> bool:
        """Return whether passes are compiled, each number of rows for itself."""
        return self._arithmetic is not None and self._arithmetic.is_compiled

    @property
    def uses_tf32(self) -> bool:
        """Return whether passes are to run where ``evaluation.arithmetic.fixed_arithmetic`` allows TF32."""
        return self._arithmetic is not None and self._arithmetic.uses_tf32

    def as_module(self) -> nn.Module:
        """Return the model as a module from inputs, such as images in [0, 1], to outputs, for other libraries.

        It shares the frozen parameters, and must stay on ``device`` and in evaluation mode.
        """
        return _AsModule(self)

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None, targets: Tensor | None = None) -> Tensor:
        """Return (B, classes) logits of images (B, C, H, W) in [0, 1], both float32; differentiable in ``inputs``.

        ``seeds``, one per example, determine the random numbers of a model that draws any; without them it draws new
        ones. A model that ``takes_targets`` scores ``targets`` if they are given, such as the words of other texts.

        Raises:
            ContractError: the inputs are not such images, or the model returned other outputs, or no dense tensor.
        """
        self._check_inputs(inputs)
        if any(map(IS_TRAINING, self._submodules)):
            raise ContractError("the model went into training mode, wanted evaluation: it must not call train() itself")
        normalised, others = self._as_given(inputs)
        with self._running(), following(self._module, self._backward):
            if self.is_compiled:
                output = self._compiled(normalised, seeds)
            else:
                # Lazy seeds are not read here: a model without random numbers does not need them.
                given = seeds if seeds is None or isinstance(seeds, LazySeeds) else tuple(seeds)
                if targets is not None:
                    others["targets"] = targets.clone()
                output = self._module(normalised, *([given] if self.takes_seeds else []), **others)
        outputs = self._rules.outputs_of(output, len(inputs))
        if outputs.device != self.device or outputs.layout is not torch.strided:
            found = f"a tensor on {outputs.device} of the layout {str(outputs.layout).removeprefix('torch.')}"
            raise ContractError(f"the model returned {found}, wanted a dense one on {self.device}")
        return outputs.float()

    __call__ = outputs

    def outputs_and_layers(
        self, inputs: Tensor, seeds: Sequence[int] | None = None
    ) -> tuple[Tensor, Sequence[ShownLayer]]:
        """Return ``outputs``, and the attention layers of the same pass in its graph, in the order of their calls.

        Raises:
            ContractError: as ``outputs``; or passes are compiled, or show no layers, or none of whole batches.
        """
        if self.is_compiled:
            raise ContractError(f"compiled passes show no layers: {ADVICE[:1].lower()}{ADVICE[1:]}")
        with showing(self._module, self._running) as layers:
            outputs = self.outputs(inputs, seeds)
        if not layers:
            raise ContractError(
                "nothing can be seen of the model: no part of it has a method 'seen', as robench's own attention "
                "mechanisms have. Give its attention that method (docs/analysis.md)"
            )
        found = {len(each.tokens_BNC) for each in layers}
        if found != {len(inputs)}:
            raise ContractError(f"attention layers are called with {found} rows for {len(inputs)} inputs, wanted all")
        return outputs, layers

    def token_gradients(
        self, inputs: Tensor, seeds: Sequence[int], score: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Callable[[Sequence[str]], Tensor]] | None:
        """Return the gradient of a score of the outputs by a text's embedded tokens, and embeddings of words.

        ``score`` is a function of the outputs for a text (1, T), such as a margin. Returned are the gradient (L, C) by
        the tokens that the model reads, and a function of n words to their embeddings (n, C); None unless it is a
        ``WordModel`` of words.
        """
        embedding, embedded = (getattr(self._module, name, None) for name in ("embedding", "embedded"))
        if embedding is None or embedded is None or getattr(self._module, "reads_pieces", False):
            return None
        with torch.enable_grad(), as_leaves(self._module, "embedding") as leaves:
            value = score(self.outputs(inputs, seeds))
        (gradient,) = torch.autograd.grad(value, leaves[0])
        return gradient[0], embedded

    def swap_gains(
        self, inputs: Tensor, seeds: Sequence[int], score: Callable[[Tensor], Tensor], tokens: Sequence[int]
    ) -> Tensor:
        """Return by how much each swap of a token changes a score of the outputs to first order, (V, ..., N).

        With the gradient g of the score by the vector of a place, the gain of the token v there is
        g . (embed(v) - embed(x)). The module gives ``embed``, a method or submodule that its ``forward`` calls once:
        from tokens (B, ..., N), such as (B, N), to vectors (B, ..., N, D). A vector depends on its token and place
        alone. ``forward`` may call it with more or fewer places of padding.

        ``inputs`` are one sequence of tokens, or one pair, (1, ..., N), ``seeds`` its seed, ``score`` a function of the
        outputs, such as a margin, and ``tokens`` the V tokens.

        Raises:
            ContractError: the module gives no such ``embed``.
        """
        embed = getattr(self._module, "embed", None)
        if not callable(embed):
            raise ContractError(
                "its module has no embed, and gradients by tokens need a method or submodule of that name that forward "
                "calls once, from tokens (B, N) to vectors (B, N, D)"
            )
        with torch.no_grad():
            clean = embed(inputs.clone())
        if not isinstance(clean, Tensor) or clean.ndim != inputs.ndim + 1 or clean.shape[:-1] != inputs.shape:
            found = tuple(clean.shape) if isinstance(clean, Tensor) else type(clean).__name__
            wanted = f"a vector for each token, ({', '.join(map(str, inputs.shape))}, D)"
            raise ContractError(f"its embed returned {found} for tokens {tuple(inputs.shape)}, wanted {wanted}")
        with torch.enable_grad(), as_leaves(self._module, "embed") as leaves:
            value = score(self.outputs(inputs, seeds))
        gradient = None
        if len(leaves) == 1 and value.requires_grad:
            (gradient,) = torch.autograd.grad(value, leaves, allow_unused=True)
        if gradient is None:
            raise ContractError(
                f"its forward calls embed {len(leaves)} times, wanted one call whose vectors decide the outputs"
            )
        # The module may have added or left out places of padding.
        gradient = nn.functional.pad(gradient, (0, 0, 0, inputs.shape[-1] - gradient.shape[-2]))
        with torch.no_grad():
            # Token by token: all at once would need the memory of a batch of V sequences.
            gains = [((embed(torch.full_like(inputs, token)) - clean) * gradient).sum(-1)[0] for token in tokens]
        return torch.stack(gains)

    def reading(self, inputs: Tensor) -> Mapping[str, Tensor]:
        """Return counts (B,) of texts (B, T) by the tokenizer of a model; none for other models.

        They are the number of pieces, ``num_pieces``, and ``num_lost`` and ``num_cut`` of an outcome.
        """
        counted: Mapping[str, Tensor] = self._module.text_reading(inputs) if self.has_tokenizer else {}  # type: ignore[operator]  # of the module
        return counted

    @property
    def gradient_modes(self) -> tuple[str, ...]:
        """Return the gradients other than its own that some module of the model offers."""
        return tuple(dict.fromkeys(mode for each in self._submodules for mode in _modes_of(each)))

    def with_gradients(self, mode: str) -> LoadedModel:
        """Return the same model with other gradients of its modules, whose outputs stay the same.

        With ``through_solvers`` the attribute ``stops_gradients`` of modules where it is true is false during a pass;
        with other modes ``gradient_mode`` is the mode where ``gradient_modes`` contains it. ``mechanism`` sets the
        first of them, and follows solvers too. All others keep their own.
        """
        return _Differentiable(self, mode)

    def with_backward(self, rule: str) -> LoadedModel:
        """Return the same model, whose gradients follow a rule (``models.backward_rules_impl``); outputs stay the same.

        Raises:
            ContractError: the rule is unknown, the model has no attention that shows itself, or passes are compiled.
        """
        if self.is_compiled:
            raise ContractError(f"backward {rule} needs hooks, which compiled passes leave out: take another precision")
        followers_of(self._module, rule)
        model = copy(self)
        model._backward = rule
        return model

    @property
    def patch_grid(self) -> tuple[int, int]:
        """Return rows and columns of an image's patches: timm's ``patch_embed.grid_size``, (0, 0) without one."""
        rows, columns = getattr(getattr(self._module, "patch_embed", None), "grid_size", None) or (0, 0)
        return int(rows), int(columns)

    def in_precision(self, dtype: str) -> LoadedModel:
        """Return the same model, whose passes run in another arithmetic (``core.shard.Precision``).

        Inputs, outputs and gradients stay float32.

        Raises:
            ContractError: the arithmetic is unknown, or passes of a model of texts would be compiled.
            UsageError: the device does not have it.
        """
        model = copy(self)
        check_device(dtype, self.device)
        model._arithmetic = None if dtype == EXACT_DTYPE else arithmetic_of(dtype)
        if model.is_compiled and not self.domain.is_real_valued:
            raise ContractError(
                f"passes for {self.domain.name}, of any length, cannot be compiled, got precision {dtype}"
            )
        if model.is_compiled and model._takes_masks:
            raise ContractError(f"passes of models that take masks cannot be compiled, got precision {dtype}")
        # Compiled passes score what their inputs contain.
        model.takes_targets = model.takes_targets and not model.is_compiled
        return model

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Run a pass, or later operations on its tensors, in the model's arithmetic."""
        with KeptSettings(), running_in(self._arithmetic, self.device):
            yield

    def _check_inputs(self, inputs: Tensor) -> None:
        domain = self.domain
        axes = ["batch", *domain.axes]
        fits = not domain.axes or inputs.ndim == len(axes)
        if CHANNELS in axes and self._num_channels is not None:
            place = axes.index(CHANNELS)
            axes[place] = str(self._num_channels)
            fits = fits and inputs.shape[place] == self._num_channels
        if not fits:
            raise ContractError(f"inputs must be {domain.name} ({', '.join(axes)}), got {tuple(inputs.shape)}")
        wanted = domain.rules.dtype
        if inputs.dtype != wanted:
            advice = f": convert them (bytes over {domain.levels})" if domain.levels else ""
            scale = " in [{:g}, {:g}]".format(*domain.limits) if domain.limits else f", as those of {domain.name} are"
            raise ContractError(f"inputs must be {str(wanted)[6:]}{scale}, got {inputs.dtype}{advice}")
        if inputs.device != self.device:
            raise ContractError(f"inputs must be on {self.device}, where the model is, got {inputs.device}")


class _AsModule(nn.Module):
    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        self.module, self.outputs = model.module, model.outputs
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs(inputs)


def _words_of(module: nn.Module) -> tuple[str, ...]:
    words = getattr(module, "words", None)
    is_list = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
    return tuple(words) if is_list else ()  # type: ignore[arg-type]  # a list or tuple of texts


class Normaliser:
    """Inputs as a module takes them: normalised, zero in the place of padding, and their mask if it takes masks.

    Attributes:
        mean, std: on the device, in shapes that go with inputs, as (C, 1, 1).
    """

    def __init__(self, module: nn.Module, preprocessing: Preprocessing, device: torch.device | str = "cpu") -> None:
        self.domain = DOMAINS[preprocessing.domain]
        self._takes_masks = bool(getattr(module, "takes_masks", False))
        self.mean, self.std = normalisation_of(preprocessing, device)

    def __call__(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor | None]]:
        """Return the first argument of the module's ``forward`` for inputs (B, ...), a copy, and named ones."""
        normalised = (inputs - self.mean) / self.std if self.domain.is_real_valued else inputs.clone()
        valid = self.domain.rules.valid(inputs)
        if valid is not None:
            normalised = without_padding(normalised, valid)
        return normalised, {"mask_BN": valid} if self._takes_masks else {}


def without_padding(inputs: Tensor, valid: Tensor) -> Tensor:
    """Return inputs (B, N, ...) with zeros where ``valid``, booleans of their first axes, is false."""
    beside = valid.reshape(*valid.shape, *(1 for _ in inputs.shape[valid.ndim :]))
    return torch.where(beside, inputs, torch.zeros((), dtype=inputs.dtype, device=inputs.device))


def normalisation_of(preprocessing: Preprocessing, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation on a device, float32, in shapes that go with inputs, such as (C, 1, 1)."""
    domain = DOMAINS[preprocessing.domain]
    if preprocessing.num_channels not in (None, 1) and not domain.channel_shape:
        raise DeclarationError(
            f"preprocessing has mean and std of {preprocessing.num_channels} channels, and inputs of the domain "
            f"{domain.name} have no axis of channels: give one mean and one std"
        )
    mean, std = (
        torch.tensor(values, device=device, dtype=torch.float32).reshape(domain.channel_shape)
        for values in preprocessing.normalisation
    )
    return mean, std


def _modes_of(module: nn.Module) -> tuple[str, ...]:
    modes: tuple[str, ...] = getattr(module, "gradient_modes", ())
    return modes


class _Differentiable(LoadedModel):
    """Model with other gradients; it shares the other's module, and leaves it unchanged between passes."""

    def __init__(self, model: LoadedModel, mode: str) -> None:
        vars(self).update(vars(model))
        # Attributes of modules with their values during a pass.
        self._set_in_passes: list[tuple[nn.Module, str, object]] = [
            (module, "gradient_mode", _modes_of(module)[0] if mode == "mechanism" else mode)
            for module in self._submodules
            if mode in (modes := _modes_of(module)) or (modes and mode == "mechanism")
        ]
        if mode in ("through_solvers", "mechanism"):
            stopping = [module for module in self._submodules if getattr(module, "stops_gradients", False)]
            self._set_in_passes += [(module, "stops_gradients", False) for module in stopping]

    @contextmanager
    def _running(self) -> Iterator[None]:
        before = [(module, name, getattr(module, name)) for module, name, _ in self._set_in_passes]
        try:
            self._set(self._set_in_passes)
            with super()._running():
                yield
        finally:
            self._set(before)

    def _set(self, attributes: Sequence[tuple[nn.Module, str, Any]]) -> None:
        for module, name, value in attributes:
            setattr(module, name, value)
