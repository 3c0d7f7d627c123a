"""The program `hone` inside the package: `python -m hone` and the script `hone` become it."""
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "bin"
NAMES = ("hone", "swift", "megatron", "llamafactory-cli", "lmf", "accelerate")


def main(name: str = "hone") -> None:
    """Replaces this process by the program under one of its names, with this process's arguments."""
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
