"""Declaration of models of the library transformers, which a folder of files describes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import LARGEST, FieldProblem
from robench.models.base import ArchitectureBase

CAUSAL = "causal-lm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformers(ArchitectureBase):
    """Model of the library transformers: configuration, weights and tokenizer are the files of a folder.

    ``weights.uri`` names the folder, or a repository ``hf-hub:owner/name@revision``. Weights must be safetensors. No
    code and no pickle of the folder is loaded.

    Attributes:
        task: ``causal-lm`` for language models, which are measured by words; or the kind of classifier.
        attention: mechanism that takes the place of the model's own, with the model's projections; None to keep it.
        kernel: the library's implementation of the model's own attention.
        context: largest number of tokens that the model reads at once; None for that of its configuration, and of its
            tokenizer if a classifier's is smaller. Language models read longer texts in windows.
        stride: number of tokens that each window of a language model scores after the first; None for ``context``,
            which gives the rolling log-likelihoods of lm-evaluation-harness.
        truncates: whether it is meant that a classifier reads ``context`` tokens of longer texts. Otherwise a run says
            how many texts it cuts.
    """

    kind: ClassVar[str] = "transformers"
    implementation: ClassVar[str] = "robench.models.hub_impl:build_of_folder"
    is_folder: ClassVar[bool] = True

    task: Literal["causal-lm", "text-classification", "image-classification"]
    attention: AttentionBase | None = None
    kernel: Literal["eager", "sdpa"] = "eager"
    context: Annotated[int | None, Ge(2), Le(LARGEST)] = None
    stride: Annotated[int | None, Ge(1), Le(LARGEST)] = None
    truncates: bool = False

    @property
    def couples_rows(self) -> bool | None:
        """Return whether rows of a batch influence each other."""
        return self.attention is not None and self.attention.is_coupled

    def contradictions(self) -> list[FieldProblem]:
        """Refuse fields that are of another task, and strides longer than the context."""
        problems: list[FieldProblem] = []
        if self.stride is not None and self.task != CAUSAL:
            problems.append(("stride", f"must be left out for {self.task}"))
        if self.truncates and self.task != "text-classification":
            problems.append(
                ("truncates", f"must be left out for {self.task}, since it is of text-classification alone")
            )
        if self.context is not None and self.task == "image-classification":
            problems.append(("context", "must be left out for image-classification"))
        if self.stride is not None and self.context is not None and self.stride > self.context:
            problems.append(("stride", f"must be at most the context {self.context}, got {self.stride}"))
        return problems
