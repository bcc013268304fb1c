"""Files of figures: SVG, PDF and PNG, whose bytes follow from the plot and the release of matplotlib alone."""

import io
from collections.abc import Mapping

from robench.core.errors import UsageError, described
from robench.core.providers import install_command
from robench.figures.plots import Plot

SUFFIXES: Mapping[str, str] = {".svg": "svg", ".pdf": "pdf", ".png": "png"}
PNG_DOTS_PER_INCH = 200
# By format, what matplotlib would write of itself and of the time.
_METADATA: Mapping[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def check_matplotlib() -> None:
    """Refuse to go on where matplotlib cannot be imported, by a UsageError."""
    try:
        import matplotlib  # noqa: F401  # the import is the check
    except ModuleNotFoundError as error:
        raise UsageError(f"figures need matplotlib ({error}); install it with: {install_command('figures')}") from error
    # Such as a variable MPLBACKEND that names nothing, a ValueError.
    except Exception as error:
        raise UsageError(f"figures need matplotlib, whose import fails ({described(error)})") from error


def rendered(plot: Plot, format_name: str) -> bytes:
    """Return a plot as the content of a file: ``svg``, ``pdf`` or ``png``; raises like ``check_matplotlib``."""
    check_matplotlib()
    # Imported here: the extra 'figures' is optional.
    from robench.figures.draw import drawn, settings

    content = io.BytesIO()
    with settings():
        drawn(plot).savefig(
            content, format=format_name, metadata=_METADATA[format_name], dpi=PNG_DOTS_PER_INCH, facecolor="white"
        )
    return content.getvalue()
