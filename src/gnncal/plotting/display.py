"""What the displays share: a place to draw, and where they drew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from gnncal.plotting.style import new_axes, paper_style


class Display:
    """Base of the displays, in scikit-learn's manner.

    A display holds the records of one chart. ``plot`` draws them and can be called again; then
    ``ax_`` is the axis and ``figure_`` the figure that holds it.
    """

    height: ClassVar[float]  # inches, of a figure that the display makes itself
    ax_: Any
    figure_: Any

    def _draw_on(self, ax: Any, draw: Callable[[Any], None]) -> Self:
        """Draw on the user's axis as it is, or on a new one in the style of a paper."""
        if ax is None:
            ax = new_axes(height=self.height)
            with paper_style():
                draw(ax)
        else:
            draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
