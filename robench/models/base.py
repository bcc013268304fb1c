"""Base class of the declarations of backbones."""

from typing import ClassVar

from robench.declarations.base import DeclarationBase


class ArchitectureBase(DeclarationBase):
    """Declaration of a backbone, which a checkpoint's weights must fit.

    The implementation is a function ``(declaration) -> nn.Module`` that takes its initial weights from torch's global
    generator. With ``takes_drop_path``, it has a second argument, ``drop_path_rate``.

    Attributes:
        takes_drop_path: whether branches of the model can be dropped in training.
        runs_user_code: whether the model is the user's own code.
        is_folder: whether the files of a folder describe the model, so that the implementation is a function
            ``(declaration, folder, random_weights) -> nn.Module`` that returns it with its weights or initial ones.
    """

    takes_drop_path: ClassVar[bool] = False
    runs_user_code: ClassVar[bool] = False
    is_folder: ClassVar[bool] = False

    @property
    def couples_rows(self) -> bool | None:
        """Return whether rows of a batch influence each other; None if the code is not robench's."""
        return None

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """Return the shape of an input, of a model of texts that of its ids of words; None if it is not declared."""
        return None

    def code_digest(self) -> str | None:
        """Return the SHA-256 of the user's code that builds the model, None without such code."""
        return None
