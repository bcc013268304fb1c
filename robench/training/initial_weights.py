"""Initial weights of a classifier of texts from a language model's file.

Embedding, vocabulary, blocks and last norm are the language model's; the positions of words begin as its sinusoids,
from 0 at the first word. Class token, its position and the head are the classifier's own. As names and shapes alone
must fit, a mechanism takes the weights of another with the same parameters: RPC-Attention those of its symmetric or
asymmetric softmax attention, twicing attention those of softmax. No file tells the number of heads and the activation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError
from robench.models.language_impl import sinusoids
from robench.models.loading import load_strictly
from robench.models.state_files import load_state
from robench.models.weights import Named, resolve_file

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint, Weights
    from robench.models.text_classifier_impl import TextClassifierModel

_OUTPUT = "output."
# Beginnings of names that the classifier has and a language model does not.
_OWN = ("cls_token", "pos_embed", "head.")


def start_from(model: TextClassifierModel, weights: Weights, checkpoint: Checkpoint) -> None:
    """Copy the language model's part of the weights into the classifier of a checkpoint.

    Raises:
        DeclarationError: the classifier is not causal.
        WeightsError: the file is missing, unsafe, or another than declared, or its names and shapes do not fit; the
            message lists them. Nothing was copied.
    """
    if not model.architecture.is_causal:
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has training.initial_weights, those of a language model, whose blocks are"
            " causal: set is_causal: true in its architecture"
        )
    named = Named(checkpoint.name, field="training.initial_weights", noun="initial weights")
    path, _ = resolve_file(weights, checkpoint.folder, named)
    found = {name: each for name, each in load_state(path, weights.layout).items() if not name.startswith(_OUTPUT)}
    own = {name: each for name, each in model.state_dict().items() if name.startswith(_OWN)}
    load_strictly(model, {**own, **found}, f"{path} (initial weights of {checkpoint.name})")
    architecture = model.architecture
    model.pos_embed.data[0, : architecture.context] = sinusoids(architecture.context, architecture.dim)
