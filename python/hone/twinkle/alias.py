"""`import twinkle` served by hone.twinkle, for scripts that are not to be changed."""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType

from ..errors import UsageError

OURS = __name__.rpartition(".")[0]
_VARIABLE = "HONE_TWINKLE_INSTALLED"  # processes that this one starts do the same


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds twinkle.x in hone.twinkle.x: the same module under both names."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "twinkle" and not name.startswith("twinkle."):
            return None
        if importlib.util.find_spec(OURS + name.removeprefix("twinkle")) is None:
            raise ModuleNotFoundError(f"hone's twinkle has no {name!r}; what it has is in docs/python.md", name=name)
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(OURS + spec.name.removeprefix("twinkle"))
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system wrote the other name's into it


def install(replace: bool = False) -> None:
    """Makes `import twinkle` mean hone.twinkle in this process. Refuses where a twinkle-kit is installed, unless `replace` is true."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    found = importlib.util.find_spec("twinkle")
    if found is not None and not replace:
        raise UsageError(f"a twinkle is installed already: {found.origin}",
                         "import hone.twinkle as twinkle, remove twinkle-kit, or say install(replace=True) (python -m hone.twinkle --replace)")
    for name in [name for name in sys.modules if name == "twinkle" or name.startswith("twinkle.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    os.environ[_VARIABLE] = "1"


def install_as_parent() -> None:
    """Does in a worker what the process that started it did."""
    if os.environ.get(_VARIABLE) == "1":
        install(replace=True)
