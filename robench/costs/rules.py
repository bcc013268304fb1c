"""Rules by which multiply-adds are counted, and the counts of a model that they are applied to."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Rule by which the operations of a forward pass are counted.

    Attributes:
        meaning: what it counts, in a clause.
        products: weight of the multiply-adds of products of two activations, such as those of attention.
        biases: operations for each addition of a bias.
        norm_elements: operations for each element that a LayerNorm normalises.
    """

    meaning: str
    products: int = 1
    biases: int = 0
    norm_elements: int = 0


# Multiply-adds of linear layers count in all of them.
RULES: Mapping[str, Rule] = {
    "linear": Rule(meaning="linear layers and convolutions, such as the patch embedding", products=0),
    "biases": Rule(meaning="linear, and 1 for each addition of a layer's bias", products=0, biases=1),
    "products": Rule(meaning="linear, and products of activations, such as those of attention"),
    "fvcore": Rule(meaning="products, and 5 for each element of a LayerNorm, as fvcore counts", norm_elements=5),
}
DEFAULT_RULE = "products"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a model: its size, and the operations of a forward pass of one example.

    Attributes:
        parameters: number of parameters; one shared by several layers counts once.
        linear: multiply-adds of products with parameters: linear layers and convolutions.
        products: multiply-adds of products of two activations.
        biases: additions of biases to the outputs of linear layers and convolutions.
        norm_elements: number of elements that LayerNorms normalise.
    """

    parameters: int
    linear: int
    products: int
    biases: int
    norm_elements: int

    def multiply_adds(self, rule: str) -> int:
        """Return the multiply-adds by a rule of ``RULES``."""
        found = RULES[rule]
        others = found.products * self.products + found.biases * self.biases
        return self.linear + others + found.norm_elements * self.norm_elements
