"""Whether a torch is the release that this wheel was built with: libtorch's C++ interface changes with each."""
import re
from pathlib import Path

from . import _built
from .errors import UsageError


def require_release(found: str) -> None:
    """Raises UsageError unless a torch of this version can load libhone."""
    if found.split(".")[:2] != _built.TORCH.split("."):
        raise UsageError(f"this hone was built with torch {_built.TORCH}, and this environment has {found}",
                         f"install torch {_built.TORCH}, or build hone in this environment (pip install . in its sources)")


def installed_release(packages: Path) -> str:
    """The version of the torch in a folder of packages, which is not imported; empty when there is none."""
    try:
        text = (packages / "torch/version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^__version__ = '([^']+)'", text, re.M)
    return found[1] if found else ""
