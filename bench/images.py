#!/usr/bin/env python3
"""Images per second from JPEG files to the input rows of a vision tower: hone on two threads and transformers' image processors in two processes, on the same files.

    bench/images.py [--images 200] [--size 1024x768] [--bench build/images_bench]

The peer is Qwen2-VL's processor after the resize of qwen_vl_utils, as ms-swift calls it. transformers 5 has two: with Pillow and numpy, and with torchvision, which is
the default if installed. Both are measured if available. Milliseconds are CPU time of a thread, image by image; the load of the
machine is printed: run it on an idle one.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
from PIL import Image


def processor_of(kind):
    if kind == "torchvision":
        import torch
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

        torch.set_num_threads(1)  # a process a core
        return Qwen2VLImageProcessor(), "pt"
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(), "np"


made = {}


def prepare(job):
    """Rows of one image, and milliseconds of its three stages."""
    path, kind = job
    if kind not in made:
        made[kind] = processor_of(kind)
    processor, tensors = made[kind]
    begin = time.process_time()
    image = Image.open(path).convert("RGB")
    decoded = time.process_time()
    height, width = (max(28, round(side / 28) * 28) for side in (image.height, image.width))
    image = image.resize((width, height))
    resized = time.process_time()
    rows = len(processor(images=image, do_resize=False, return_tensors=tensors)["pixel_values"])
    return rows, [1e3 * (b - a) for a, b in zip((begin, decoded, resized), (decoded, resized, time.process_time()))]


def has_torchvision():
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        return False
    return True


def write_images(folder, count, width, height):
    generator, paths = np.random.default_rng(0), []
    for i in range(count):
        coarse = generator.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)  # as smooth as a photograph is
        paths.append(str(folder / f"{i}.jpg"))
        Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--size", default="1024x768")
    parser.add_argument("--bench", default=pathlib.Path(__file__).resolve().parents[1] / "build" / "images_bench")
    args = parser.parse_args()
    width, height = map(int, args.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(pathlib.Path(folder), args.images, width, height)
        print(f"load before {os.getloadavg()[0]:.2f}")
        ours = json.loads(subprocess.run([args.bench, *paths], check=True, capture_output=True, text=True).stdout)
        rate = ours["images"] / ours["seconds"]
        our_ms = [ours[f"{stage}_ms"] for stage in ("decode", "resize", "rows")]
        stages = lambda ms: "  ".join(f"{name} {value:.1f}" for name, value in zip(("decode", "resize", "rows"), ms)) + " ms"
        print(f"hone, 2 threads               {rate:>8.1f} images/s   {stages(our_ms)}")
        kinds = ["pillow", "torchvision"] if has_torchvision() else ["pillow"]
        for kind in kinds:
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                pool.map(prepare, [(path, kind) for path in paths[:4]])  # imports
                start = time.perf_counter()
                found = pool.map(prepare, [(path, kind) for path in paths], chunksize=4)
                seconds = time.perf_counter() - start
            assert sum(rows for rows, _ in found) == 4 * ours["tokens"]
            default = " (the default)" if kind == kinds[-1] else ""
            their_ms = np.mean([ms for _, ms in found], axis=0)
            print(f"transformers, {kind}, 2 processes{default} {len(paths) / seconds:.1f} images/s   {stages(their_ms)}   "
                  f"hone is {rate * seconds / len(paths):.1f} times as fast, in processor time {sum(their_ms) / sum(our_ms):.1f}")
        if "torchvision" not in kinds:
            print("torchvision is not installed: its processor, the default where it is, was not measured")


if __name__ == "__main__":
    main()
