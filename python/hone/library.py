"""Loads libhone's module beside the torch of this environment."""
import torch  # before the module, which takes its libraries

from . import _built

found = ".".join(torch.__version__.split(".")[:2])
if found != _built.TORCH:
    raise ImportError(f"this hone was built with torch {_built.TORCH}, and this environment has {torch.__version__}. "
                      f"Install torch {_built.TORCH}, or build hone in this environment (pip install . in its sources).")
try:
    from . import _hone as _hone  # for the modules beside this one
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
