#!/usr/bin/env python3
"""Pictures a second from JPEG files to the rows that a tower reads: hone on two threads beside transformers' image processor in two processes, the same files.

    bench/images.py [--images 200] [--size 1024x768] [--bench build/images_bench]

The processor is Qwen2-VL's over Pillow, after the resize of qwen_vl_utils, as ms-swift calls it. The load of the machine is printed: run it on an idle one.
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


def prepare(path):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    image = Image.open(path).convert("RGB")
    height, width = (max(28, round(side / 28) * 28) for side in (image.height, image.width))
    return len(Qwen2VLImageProcessorPil()(images=image.resize((width, height)), do_resize=False, return_tensors="np")["pixel_values"])


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
        print(f"hone, 2 threads          {rate:>8.1f} images/s  {ours['tokens'] / ours['seconds']:>9.0f} tokens/s")
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.map(prepare, paths[:4])  # imports
            start = time.perf_counter()
            patches = sum(pool.map(prepare, paths, chunksize=4))
            seconds = time.perf_counter() - start
        assert patches == 4 * ours["tokens"]
        print(f"transformers, 2 processes{len(paths) / seconds:>8.1f} images/s   hone is {rate * seconds / len(paths):.1f} times as fast")


if __name__ == "__main__":
    main()
