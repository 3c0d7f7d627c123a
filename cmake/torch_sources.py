"""Prints, of the C++ files given, those that include hone/device/tensor.h, directly or through other headers.

Only a hint for speed: these files get the precompiled header with libtorch in it, whose pending templates cost each user
seconds; the others get the light one. A stale answer still builds.
"""
import functools
import pathlib
import re
import sys

SOURCE_ROOT = pathlib.Path(sys.argv[1])
INCLUDE = re.compile(r'^#include "(hone/[^"]+)"', re.MULTILINE)


@functools.cache
def reaches_torch(path: pathlib.Path) -> bool:
    if path == SOURCE_ROOT / "hone/device/tensor.h":
        return True
    return path.exists() and any(reaches_torch(SOURCE_ROOT / name) for name in INCLUDE.findall(path.read_text()))


print(";".join(name for name in sys.argv[2:] if reaches_torch(pathlib.Path(name))), end="")
