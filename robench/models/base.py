"""Base of the declarations of backbones."""

from __future__ import annotations

from typing import ClassVar

from robench.declarations.base import DeclarationBase


class ArchitectureBase(DeclarationBase):
    """Declaration of a backbone: what a checkpoint's weights fit.

    The implementation is a function ``(declaration) -> nn.Module`` that takes its initial weights from torch's global
    generator. Where ``takes_drop_path`` holds, it has a second argument, ``drop_path_rate``.

    Attributes:
        takes_drop_path: branches of the model can be dropped in training.
        runs_user_code: the model is code of the user's own.
    """

    takes_drop_path: ClassVar[bool] = False
    runs_user_code: ClassVar[bool] = False

    @property
    def couples_rows(self) -> bool | None:
        """Whether rows of a batch influence each other; None where the code is not robench's."""
        return None

    def code_digest(self) -> str | None:
        """Return the SHA-256 of the user's code that builds the model, None where there is none.

        Raises:
            DeclarationError: the code cannot be found.
        """
        return None
