"""Loads libhone's module with the torch of this environment."""
import torch  # before the module, which takes its libraries

from .errors import UsageError
from .torch_release import require_release

try:
    require_release(torch.__version__)
except UsageError as problem:
    raise ImportError(str(problem)) from None
try:
    from . import _hone as _hone  # for the modules of this package
except ImportError as problem:
    raise ImportError(f"libhone cannot be loaded: {problem}. It expects the pyarrow and the system libraries that it was built with: "
                      "install them, or build hone on this machine (pip install . in its sources).") from problem

_hone.set_log_level("warning")
_hone.configure_hub("")  # caches, tokens and the hub that names are looked up on, as the environment says


def version() -> str:
    """The version of libhone."""
    return _hone.version()


def set_log_level(level: str) -> None:
    """How much libhone says on stderr: debug, info, warning (at first), error or off."""
    _hone.set_log_level(level)
