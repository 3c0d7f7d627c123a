"""Writes files that each include several of the kernels given, and prints their names. Most of what nvcc does for a file of kernels is to read
libtorch's headers: nine seconds each.

usage: cuda_batches.py SOURCE_ROOT FOLDER KERNELS…
"""
import pathlib
import sys

BATCH_BYTES = 32_000


def batches_of(kernels):
    batches, size = [], 0
    for path in sorted(map(pathlib.Path, kernels)):
        if not batches or size + path.stat().st_size > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(path)
        size += path.stat().st_size
    return batches


def write_batch(root, file, batch):
    text = "".join(f'#include "{path.resolve().relative_to(root.resolve())}"\n' for path in batch)
    if not file.exists() or file.read_text() != text:  # an unchanged file is not compiled again
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return file


if __name__ == "__main__":
    root, folder = map(pathlib.Path, sys.argv[1:3])
    files = [write_batch(root, folder / f"kernels_{number}.cu", batch) for number, batch in enumerate(batches_of(sys.argv[3:]))]
    print(";".join(map(str, files)), end="")
