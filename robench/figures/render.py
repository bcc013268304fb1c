"""Files of figures: SVG, PDF, PNG and PGF, whose bytes follow from the plot and the release of matplotlib alone.

PGF is text that LaTeX sets in the font of the document, and is measured by ``pdflatex`` when it is written.
"""

import io
from collections.abc import Iterable, Mapping
from shutil import which

from robench.core.errors import UsageError, described
from robench.core.providers import install_command
from robench.figures.plots import MapPanel, Plot

SUFFIXES: Mapping[str, str] = {".svg": "svg", ".pdf": "pdf", ".png": "png", ".pgf": "pgf"}
PNG_DOTS_PER_INCH = 200
# Inches of a column and of a page of a paper in two columns.
COLUMN, PAGE = 3.25, 6.75
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


def rendered(plot: Plot, format_name: str, width: float = COLUMN, registry: Iterable[str] = ()) -> bytes:
    """Return a plot as the content of a file, one of ``SUFFIXES``; ``width`` and ``registry`` are as of ``drawn``.

    Raises:
        UsageError: matplotlib cannot be imported; or PGF is wanted, and there is no ``pdflatex``, or a panel is a map.
    """
    check_matplotlib()
    # Imported here: the extra 'figures' is optional.
    from robench.figures.draw import drawn
    from robench.figures.style import escape_texts, settings

    if format_name == "pgf" and any(isinstance(panel, MapPanel) for panel in plot.panels):
        raise UsageError("maps are images, which PGF cannot hold; write .pdf")
    if format_name == "pgf" and which("pdflatex") is None:
        raise UsageError("PGF is measured by pdflatex, which was not found; install LaTeX, or write .pdf")
    content = io.BytesIO()
    with settings():
        figure = drawn(plot, width, registry)
        if format_name == "pgf":
            escape_texts(figure)
            figure.savefig(content, format="pgf")
        else:
            metadata = _METADATA[format_name]
            figure.savefig(content, format=format_name, metadata=metadata, dpi=PNG_DOTS_PER_INCH, facecolor="white")
    return content.getvalue()
