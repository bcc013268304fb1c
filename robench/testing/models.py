"""Models and examples for testing perturbations, simple enough that the expected result is known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robench.core.declared import PerturbationDeclaration
from robench.core.protocols import Batch, Model, Perturbed
from robench.domains import DOMAINS, Domain, domain_of
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.models.loaded import without_padding
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.segmentation import SEGMENTATION

NUM_CLASSES = 5
SHAPE = (3, 4, 4)
# As of every image that is attacked in earnest, a multiple of 32 values: torch computes what is left over of a tensor
# by other instructions, whose atanh differs in the last bit.
DRAWING_SHAPE = (3, 4, 8)
# By domain, the same for its inputs, all of three channels.
SHAPES: Mapping[str, tuple[int, ...]] = {IMAGES.name: SHAPE, SERIES.name: (12, 3)}
DRAWING_SHAPES: Mapping[str, tuple[int, ...]] = {IMAGES.name: DRAWING_SHAPE, SERIES.name: (32, 3)}


def domain_for(declaration: object, domain: str | None) -> Domain:
    """Return the domain on whose inputs a perturbation is checked: the named one, its own, or images.

    Raises:
        AssertionError: there are no inputs of the domain to check with.
    """
    axes = getattr(declaration, "needed_axes", ())
    needed = next((name for name in SHAPES if axes == DOMAINS[name].axes), IMAGES.name)
    name = domain or getattr(declaration, "domain", "") or needed
    if name not in SHAPES:
        raise AssertionError(
            f"there are no inputs of the domain {name!r} to check with; expected {' or '.join(SHAPES)}"
        )
    return DOMAINS[name]


def shown(inputs: Tensor, domain: Domain) -> Tensor:
    """Return inputs (B, ...) as models are shown them, with zeros in the places of padding."""
    valid = domain.rules.valid(inputs)
    return inputs if valid is None else without_padding(inputs, valid)


def by_rows(rows: Tensor, weight: Tensor) -> Tensor:
    """Return rows (B, D) times weight (C, D), transposed: the same bits regardless of the other rows.

    A matrix product rounds differently for other numbers of rows on some processors.
    """
    product: Tensor = (rows[:, None] * weight).sum(-1)
    return product


def channels_of(values: tuple[Tensor, Tensor], domain: Domain) -> tuple[Tensor, Tensor]:
    """Return two tensors of a value per channel in the shape that the domain's inputs need."""
    return values[0].view(domain.channel_shape), values[1].view(domain.channel_shape)


class LinearModel:
    """Linear model with logits W (x - 1/2) + constant, whose class boundaries are hyperplanes."""

    device = torch.device("cpu")
    normalisation = (torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.5]).view(3, 1, 1))

    def __init__(
        self,
        seed: int = 0,
        constant: float = 0.0,
        num_classes: int = NUM_CLASSES,
        shape: Sequence[int] | None = None,
        domain: Domain = IMAGES,
    ) -> None:
        generator, size = torch.Generator().manual_seed(seed), torch.Size(shape or SHAPES[domain.name]).numel()
        self.weight = torch.randn(num_classes, size, generator=generator)
        self.constant, self.domain = constant, domain
        self.normalisation = channels_of(self.normalisation, domain)

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return (B, classes)."""
        return by_rows((shown(inputs, self.domain) - 0.5).flatten(1), self.weight) + self.constant

    def with_gradients(self, mode: str) -> Model:
        """Return the model itself, which has no other gradients than its own."""
        return self


class CountingModel(LinearModel):
    """Linear model that counts its input rows, and the gradients taken of their logits."""

    def __init__(self, domain: Domain = IMAGES) -> None:
        super().__init__(domain=domain)
        self.num_rows = 0
        self.num_gradients = 0

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return (B, classes)."""
        logits = super().outputs(inputs)
        self.num_rows += len(inputs)
        if logits.requires_grad:
            logits.register_hook(self._count)
        return logits

    def _count(self, gradient: Tensor) -> None:
        self.num_gradients += len(gradient)


class DrawingModel:
    """Small network whose logits are scaled by random numbers of the row's seed, with a log of its passes.

    The arithmetic is row by row, so that a row alone and in company can differ by seeds only.

    Attributes:
        passes: seeds of each pass, and whether the pass is a prediction: those alone are made without a graph, and not
            for inference.
    """

    device = torch.device("cpu")
    normalisation = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)
    takes_seeds = True

    def __init__(self, domain: Domain = IMAGES) -> None:
        self.domain, self.normalisation = domain, channels_of(self.normalisation, domain)
        generator, size = torch.Generator().manual_seed(5), torch.Size(DRAWING_SHAPES[domain.name]).numel()
        self.first, self.second = torch.randn(size, 12, generator=generator), torch.randn(12, 5, generator=generator)
        self.noise: dict[int, Tensor] = {}
        self.passes: list[tuple[set[int], bool]] = []

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return (B, classes); every pass must come with seeds."""
        assert seeds is not None, "a pass of the model came without seeds; expected one for each row"
        is_prediction = not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self.passes.append((set(seeds), is_prediction))
        rows = shown(inputs, self.domain)
        return torch.stack([self._of_row(row, seed) for row, seed in zip(rows, seeds, strict=True)])

    def with_gradients(self, mode: str) -> Model:
        """Return the model itself, which has no other gradients than its own."""
        return self

    def _of_row(self, row: Tensor, seed: int) -> Tensor:
        if seed not in self.noise:
            generator = torch.Generator().manual_seed(seed % 2**63)
            self.noise[seed] = torch.rand(5, generator=generator) + 0.5
        hidden = torch.tanh((row - 0.5).flatten() @ self.first)
        return (hidden @ self.second) * self.noise[seed].clone()


class ByPixel:
    """Model that gives each pixel of an image the logits of another model for the image."""

    def __init__(self, model: Model, size: torch.Size) -> None:
        self.model, self.size = model, size
        self.device, self.normalisation = model.device, model.normalisation
        self.takes_seeds = getattr(model, "takes_seeds", False)

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return (B, classes, H, W)."""
        return self.model.outputs(inputs, seeds)[:, :, None, None].expand(-1, -1, *self.size)

    def with_gradients(self, mode: str) -> Model:
        """Return the model itself, which has no other gradients than its own."""
        return self


def needs_masks(declaration: object) -> bool:
    """Return whether an attack has a loss of segmentation alone, such as ``masked-ce``."""
    return getattr(declaration, "loss", "") in set(SEGMENTATION.losses) - set(CLASSIFICATION.losses)


class NoModel:
    """Model that refuses all queries, for perturbations that do not use it."""


def inputs_of(domain: Domain, num_examples: int, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Return random inputs (B, *shape): images in [0, 1], or series of the whole length, of one step, and others."""
    if not domain.is_padded:
        return torch.rand(num_examples, *shape, generator=generator)
    values = torch.randn(num_examples, *shape, generator=generator)
    lengths = [shape[0], 1, *torch.randint(2, shape[0], (num_examples,), generator=generator).tolist()]
    return domain.rules.collate([each[:length] for each, length in zip(values, lengths, strict=False)])


def batch_of(num_examples: int = 6, seed: int = 1, domain: Domain = IMAGES) -> Batch:
    """Return inputs of ``SHAPES`` with random classes; the first image has values at and next to the limits."""
    generator = torch.Generator().manual_seed(seed)
    inputs = inputs_of(domain, num_examples, SHAPES[domain.name], generator)
    if domain is IMAGES:
        # Values where clamping may fail.
        inputs[0, 0, 0] = torch.tensor([0.0, 1.0, 1e-8, 1 - 2**-24])
    targets = torch.randint(0, NUM_CLASSES, (num_examples,), generator=generator)
    ids = tuple(f"example-{i}" for i in range(num_examples))
    return Batch(ids=ids, inputs=inputs, targets=targets, domain=domain.name)


def drawing_batch(num_examples: int, domain: Domain = IMAGES) -> Batch:
    """Return inputs of ``DRAWING_SHAPES`` with the classes that a ``DrawingModel`` predicts."""
    generator = torch.Generator().manual_seed(1)
    inputs = inputs_of(domain, num_examples, DRAWING_SHAPES[domain.name], generator)
    targets = DrawingModel(domain).outputs(inputs, ExampleDraws(range(num_examples)).prediction_seeds).argmax(1)
    return Batch(ids=tuple(map(str, range(num_examples))), inputs=inputs, targets=targets, domain=domain.name)


def rows_of(batch: Batch, rows: Sequence[int]) -> Batch:
    """Return copies of some of the examples."""
    places = list(rows)
    return replace(
        batch,
        ids=tuple(batch.ids[i] for i in places),
        inputs=batch.inputs[places].clone(),
        targets=batch.targets[places].clone(),
    )


def perturbed(
    declaration: PerturbationDeclaration,
    batch: Batch,
    model: Model | None = None,
    seeds: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> Perturbed:
    """Return the result of a perturbation on a batch; by default with a ``LinearModel`` and seeds 0, 1, 2 ...

    Attacks with losses of pixels get masks whose pixels all have the class of the example, and logits alike.
    """
    draws = ExampleDraws(range(len(batch.ids)) if seeds is None else seeds)
    model = LinearModel(domain=domain_of(batch)) if model is None else model
    if needs_masks(declaration):
        size = batch.inputs.shape[-2:]
        masks = batch.targets.view(-1, 1, 1).expand(-1, *size)
        batch, model = replace(batch, targets=masks, task=SEGMENTATION.name), ByPixel(model, size)
    return perturb(declaration, batch, model, draws, batch_size)
