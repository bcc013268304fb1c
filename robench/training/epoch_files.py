"""Weights of a training after each epoch, as files such as ``NAME-epoch-007.safetensors``; epoch 0: initial weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from robench.core.errors import UsageError
from robench.core.files import write_whole, writing

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFiles:
    """Files of one training.

    Attributes:
        folder: folder of the files, which may have those of other trainings too.
        name: name of the checkpoint that is trained.
    """

    folder: Path
    name: str

    def path(self, epoch: int) -> Path:
        """Return the file of the weights after a number of epochs."""
        return self.folder / f"{self.name}-epoch-{epoch:03d}.safetensors"

    def found(self) -> dict[int, Path]:
        """Return the files that exist, by epoch, ascending; none where there is no such folder.

        Raises:
            UsageError: the folder cannot be read.
        """
        try:
            names = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
        except OSError as error:
            raise UsageError(f"folder {self.folder} cannot be read ({error.strerror}): name another") from error
        matches = (re.fullmatch(rf"{re.escape(self.name)}-epoch-([0-9]{{3,9}})\.safetensors", name) for name in names)
        epochs = sorted({int(each[1]) for each in matches if each})
        return {epoch: self.path(epoch) for epoch in epochs if self.path(epoch).name in names}

    def check_up_to(self, num_epochs: int) -> None:
        """Refuse a folder with later epochs of this checkpoint, which are of another training."""
        later = [path for epoch, path in self.found().items() if epoch > num_epochs]
        if later:
            raise UsageError(
                f"{later[0]} is of another training, since {self.name} is trained for {num_epochs} epochs: name another"
                " folder, or remove the file"
            )

    def keep(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights after a number of epochs, in place of an earlier file.

        Raises:
            StoreUnwritableError: the file cannot be written.
        """
        # Imported here, as commands that only look for files need no torch.
        from safetensors.torch import save

        path = self.path(epoch)
        with writing(path):
            write_whole(path, save(dict(weights)))
