"""GIF, BMP and TIFF files in every form that Pillow reads: the same pixels, bit for bit."""
import numpy as np
import pytest
import torch
from PIL import Image

from media_runs import trace
from odd_images import bmps, gifs, tiffs
from test_images import noise, rows_of, swift_pixels

KINDS = {"gif": gifs, "bmp": bmps, "tif": tiffs}


def as_rgb(path):
    """Pixels alone: transformers 5.20 and later paints the transparent color that Pillow remembers white; ms-swift needs an earlier one."""
    image = Image.open(path).convert("RGB")
    image.info.clear()
    return image


def compare(folder, tmp_path, paths):
    wanted = [swift_pixels(as_rgb(path), 3136, 40 * 784) for path in paths]
    done, batch = trace(folder, tmp_path, rows_of(paths), template="qwen2_vl", min_pixels=3136, max_pixels=40 * 784)
    assert done.returncode == 0, done.stderr
    start = 0
    for path, one in zip(paths, wanted):
        count = len(one["pixel_values"])
        assert torch.equal(batch["patches"][start:start + count], one["pixel_values"]), path.name
        start += count
    assert start == len(batch["patches"])


@pytest.mark.parametrize("kind", KINDS)
def test_forms_that_pillow_does_not_write(folders, tmp_path, kind):
    paths = []
    for name, content in KINDS[kind](np.random.default_rng(1)).items():
        if name == "big_wide_offsets":  # BigTIFF with the high byte first, which Pillow cannot open
            continue
        paths.append(tmp_path / f"{name}.{kind}")
        paths[-1].write_bytes(content)
    compare(folders("qwen2_5_vl"), tmp_path, paths)


CODINGS = {"RGB": [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd", "lzma"], "1": [None, "group3", "group4", "tiff_ccitt", "tiff_lzw"],
           "L": [None, "jpeg"], "P": [None, "tiff_lzw"], "RGBA": [None, "tiff_lzw"], "CMYK": [None, "tiff_lzw", "jpeg"], "I;16": [None, "tiff_lzw"]}


def test_what_pillow_writes(folders, tmp_path):
    generator, images = np.random.default_rng(2), []
    size = lambda: generator.integers(2, 120, 2).tolist()
    images += [(mode, "tif", {"compression": coding}) for mode, codings in CODINGS.items() for coding in codings]
    images += [(mode, "gif", {"interlace": i}) for mode in ("RGB", "L", "P", "1") for i in (0, 1)]
    images += [(mode, "bmp", {}) for mode in ("RGB", "L", "P", "1", "RGBA")]
    images += [("RGB", "tif", {"big_tiff": True}), ("P", "gif", {"save_all": True, "append_images": [noise(generator, 50, 40, "P")], "transparency": 3, "disposal": 2})]
    paths = []
    for number, (mode, kind, settings) in enumerate(images):
        paths.append(tmp_path / f"{number}.{kind}")
        noise(generator, *size(), mode).save(paths[-1], **settings)
    compare(folders("qwen2_5_vl"), tmp_path, paths)


def test_the_name_does_not_decide(folders, tmp_path):
    """A GIF named .jpg, as downloads are."""
    Image.effect_noise((64, 48), 50).convert("P").save(tmp_path / "a.gif")
    (tmp_path / "a.gif").rename(tmp_path / "a.jpg")
    compare(folders("qwen2_5_vl"), tmp_path, [tmp_path / "a.jpg"])
