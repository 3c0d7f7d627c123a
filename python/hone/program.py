"""The program `hone` inside the package: `python -m hone` and the script `hone` become it."""
import os
import sys
from pathlib import Path

from .errors import UsageError
from .torch_release import installed_release, require_release

FOLDER = Path(__file__).resolve().parent / "bin"
NAMES = ("hone", "swift", "megatron", "llamafactory-cli", "lmf", "accelerate")


def main(name: str = "hone") -> None:
    """Replaces this process by the program under one of its names, with this process's arguments."""
    try:
        if found := installed_release(FOLDER.parents[1]):  # where the loader looks for libtorch
            require_release(found)
    except UsageError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    os.execv(FOLDER / "hone", [name, *sys.argv[1:]])


def link_front_ends(folder: str | os.PathLike[str]) -> None:
    """Makes links named swift, megatron, llamafactory-cli, lmf and accelerate in `folder`, for whoever puts it on the PATH.

    pip installs only `hone`: the others are names of programs that an environment may have.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        link = folder / name
        if link.is_symlink():
            link.unlink()
        link.symlink_to(FOLDER / "hone")
