"""Atomic publication of files under their final name: of several writers, the first wins."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from robench.core.files import write_whole
from robench.store.paths import candidate

if TYPE_CHECKING:
    from pathlib import Path

# Errors of file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def publish(path: Path, content: bytes) -> bool:
    """Write ``content`` to ``path`` unless a file exists already; return whether it was written.

    On file systems without hard links, concurrent writers may replace each other; the result is always one of their
    complete files.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    if path.exists():
        return False
    beside = candidate(path)
    write_whole(beside, content)
    try:
        # A rename would replace another writer's file; a link refuses.
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
