"""Prints, of the C++ files given, those that include hone/device/tensor.h, directly or through other headers. Those that include
hone/device/autograd.h come first, so that they share batches.

Only a hint for speed: these files get the precompiled header with libtorch in it, whose pending templates cost each user
seconds, and autograd's cost as much again; the others get the light one. A stale answer still builds.
"""
import functools
import pathlib
import re
import sys

SOURCE_ROOT = pathlib.Path(sys.argv[1])
INCLUDE = re.compile(r'^#include "(hone/[^"]+)"', re.MULTILINE)


@functools.cache
def headers(path: pathlib.Path) -> frozenset[str]:
    """The headers of hone that a file includes, directly or through others."""
    direct = INCLUDE.findall(path.read_text()) if path.exists() else []
    return frozenset(direct).union(*(headers(SOURCE_ROOT / name) for name in direct))


torch_sources = [name for name in sys.argv[2:] if "hone/device/tensor.h" in headers(pathlib.Path(name))]
torch_sources.sort(key=lambda name: "hone/device/autograd.h" not in headers(pathlib.Path(name)))
print(";".join(torch_sources), end="")
