"""What the parts share."""
from __future__ import annotations

import logging
import subprocess
import sys
from types import ModuleType
from typing import Any

from ...errors import UsageError, make_error
from ...library import _hone


def get_logger(name: str = "twinkle") -> logging.Logger:
    """A logger that writes to stderr; only the first process says what is not a warning."""
    from ..platform import Platform

    logger = logging.getLogger(name)
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("[%(levelname)s:%(name)s] %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO if Platform.is_master() else logging.WARNING)
    return logger


def not_supported(what: str, instead: str) -> UsageError:
    """The error for a part of Twinkle that hone does not have."""
    return UsageError(f"{what} is not in hone's twinkle", instead)


def local_name(name: str) -> str:
    """A model's or dataset's name without ms:// or hf://, which choose the hub for it."""
    for prefix in ("ms", "hf"):
        if name.startswith(f"{prefix}://"):
            _hone.configure_hub(prefix)
            return name.removeprefix(f"{prefix}://")
    return name


def run_program(*words: str) -> None:
    """The program that this package holds, whose complaints become an error."""
    done = subprocess.run([sys.executable, "-m", "hone", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise make_error(done.returncode, f"hone {words[0]} failed: {done.stderr.strip()[-2000:]}", "")


def construct(given: Any, kind: type, homes: ModuleType | list[ModuleType], **settings: Any) -> Any:
    """An instance out of an instance, a class, or the name of one in `homes`."""
    homes = homes if isinstance(homes, list) else [homes]
    if isinstance(given, str):
        found = next((getattr(home, given) for home in homes if isinstance(getattr(home, given, None), type)), None)
        if found is None:
            names = sorted({name for home in homes for name, value in vars(home).items() if isinstance(value, type) and issubclass(value, kind)})
            raise UsageError(f"there is no {kind.__name__} called {given!r}", f"expected one of {', '.join(names)}, or a class")
        given = found
    if isinstance(given, type):
        return given(**settings)
    return given
