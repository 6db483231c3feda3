"""The extension's module of the kernel's algorithms, with its types for checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opplab import _opplab_kernel as native
else:
    from opplab import _opplab

    native = _opplab.kernel

__all__ = ["native"]
