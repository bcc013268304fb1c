"""Files that appear whole, and under their name only once: of several writers, the first wins."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from robench.core.files import write_whole
from robench.store.paths import candidate

if TYPE_CHECKING:
    from pathlib import Path

# What file systems without hard links answer.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def publish(path: Path, content: bytes) -> bool:
    """Put ``content`` at ``path`` unless there is a file already; return whether it was put.

    Where the file system has no hard links, writers within the same moment may replace each other; what is there is
    always one of theirs, whole.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    if path.exists():
        return False
    beside = candidate(path)
    write_whole(beside, content)
    try:
        # A rename would replace what another writer has put there; a link refuses.
        path.hardlink_to(beside)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return True
