"""GIF, BMP and TIFF files in forms that Pillow reads and does not write."""
import struct

import numpy as np

SIZE = (37, 23)


def gif_codes(indices, bits):
    """LZW codes that clear the table before it grows."""
    clear, length, out, codes = 1 << bits, bits + 1, 0, []
    for i, index in enumerate(indices):
        if i % ((1 << bits) - 2) == 0:
            codes.append(clear)
        codes.append(index)
    codes.append(clear + 1)
    for i, code in enumerate(codes):
        out |= code << i * length
    data = out.to_bytes((len(codes) * length + 7) // 8, "little")
    blocks = [data[i:i + 255] for i in range(0, len(data), 255)]
    return bytes([bits]) + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"


def gif(indices, palette=b"", local=b"", screen=None, at=(0, 0), interlaced=False, transparent=None, bits=4, before=b"", trailer=b";"):
    height, width = indices.shape
    screen = screen or (width, height)
    flags = lambda table: 0x80 | (len(table) // 3).bit_length() - 2 if table else 0
    control = b"!\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0" if transparent is not None else b""
    order = [y for first, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for y in range(first, height, step)] if interlaced else range(height)
    rows = indices[list(order)].flatten().tolist()
    return (b"GIF89a" + struct.pack("<HHBBB", *screen, flags(palette), 0, 0) + palette + before + control +
            b"," + struct.pack("<HHHHB", *at, width, height, flags(local) | (0x40 if interlaced else 0)) + local + gif_codes(rows, bits) + trailer)


def gifs(generator):
    pixels = generator.integers(0, 16, SIZE[::-1])
    colors = lambda n: generator.integers(0, 256, 3 * n, dtype=np.uint8).tobytes()
    ramp = bytes(i for i in range(16) for _ in range(3))
    return {
        "global": gif(pixels, colors(16)), "local": gif(pixels, colors(16), colors(16)), "local_alone": gif(pixels, b"", colors(16)),
        "no_palette": gif(pixels), "ramp": gif(pixels, ramp), "short_palette": gif(pixels, colors(4)),
        "inside": gif(pixels, colors(16), screen=(60, 50), at=(9, 11)), "inside_transparent": gif(pixels, colors(16), screen=(60, 50), at=(9, 11), transparent=5),
        "outside": gif(pixels, colors(16), screen=(20, 10), at=(9, 11)), "interlaced": gif(pixels, colors(16), interlaced=True),
        "one_row": gif(pixels[:1], colors(16), interlaced=True), "comment": gif(pixels, colors(16), before=b"!\xfe\x03abc\0\0\0"),
        "no_trailer": gif(pixels, colors(16), trailer=b""), "transparent_gray": gif(pixels, screen=(60, 50), transparent=200),
    }


def bmp(bits, rows, palette=b"", colors=0, coding=0, masks=b"", height=None, header=40, size=SIZE):
    height = size[1] if height is None else height
    if header == 12:
        info = struct.pack("<IHHHH", 12, size[0], height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, size[0], height, 1, bits, coding, len(rows), 2835, 2835, colors, 0)
        info += masks if header > 40 else b""
        info += b"\0" * (header - len(info)) + (masks if header == 40 else b"")
    start = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + info + palette + rows


def runs(generator, halves, width, height):
    """Runs, copies, jumps and ends of rows."""
    out, most = b"", 16 if halves else 256
    for y in range(height):
        x = 0
        while x < width:
            kind, count = generator.integers(0, 3), int(min(generator.integers(3, 9), width - x))
            if kind == 0 and count >= 3:
                values = generator.integers(0, 256, (count + 1) // 2 if halves else count, dtype=np.uint8).tobytes()
                out += bytes([0, count]) + values + b"\0" * (len(values) % 2)
            elif kind == 1 and x + count < width:
                out += bytes([0, 2, count, 0])
            else:
                out += bytes([count, int(generator.integers(0, most))])
            x += count
        out += b"\0\0"
    return out + b"\0\1"


def bmps(generator):
    width, height = SIZE
    noise = lambda bits: generator.integers(0, 256, (height, (width * bits + 31) // 32 * 4), dtype=np.uint8).tobytes()
    colors = lambda n, entry=4: generator.integers(0, 256, entry * n, dtype=np.uint8).tobytes()
    ramp = b"".join(bytes([i, i, i, 0]) for i in range(256))
    masks = lambda *values: struct.pack(f"<{len(values)}I", *values)
    found = {f"bits_{bits}": bmp(bits, noise(bits), colors(1 << bits) if bits <= 8 else b"") for bits in (1, 4, 8, 16, 24, 32)}
    found |= {
        "black_white": bmp(1, noise(1), b"\0\0\0\0\xff\xff\xff\0"), "white_black": bmp(1, noise(1), b"\xff\xff\xff\0\0\0\0\0"),
        "gray": bmp(8, noise(8), ramp), "few_colors": bmp(8, noise(8), colors(100), 100), "from_top": bmp(24, noise(24), height=-height),
        "oldest": bmp(8, noise(8), colors(256, 3), header=12), "oldest_24": bmp(24, noise(24), header=12), "version_5": bmp(24, noise(24), header=124),
        "bits_565": bmp(16, noise(16), coding=3, masks=masks(0xF800, 0x7E0, 0x1F)), "bits_555": bmp(16, noise(16), coding=3, masks=masks(0x7C00, 0x3E0, 0x1F)),
        "runs_8": bmp(8, runs(generator, False, width, height), colors(256), coding=1), "runs_4": bmp(4, runs(generator, True, width, height), colors(16), coding=2),
        "runs_gray": bmp(8, runs(generator, False, width, height), ramp, coding=1), "unpadded": bmp(24, noise(24)[:-1]),
        "bits_1555": bmp(16, noise(16), coding=3, masks=masks(0x7C00, 0x3E0, 0x1F, 0x8000), header=56),
        "no_masks": bmp(32, noise(32), coding=3, masks=masks(0, 0, 0, 0), header=56),
    }
    for i, own in enumerate([(0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
                             (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000)]):
        found[f"masks_{i}"] = bmp(32, noise(32), coding=3, masks=masks(*own), header=108)
    return found


def tiff(samples, photometric, order="<", tags=(), planes=False, tile=None, big=False, bits=None):
    """samples: rows, columns, channels, of the stored type."""
    height, width, channels = samples.shape
    kind = {"u": 1, "i": 2, "f": 3}[samples.dtype.kind]
    stored = samples.astype(samples.dtype.newbyteorder(order))
    layers = [stored[:, :, c:c + 1] for c in range(channels)] if planes else [stored]
    parts = []
    for layer in layers:
        if tile:
            padded = np.pad(layer, ((0, -height % tile), (0, -width % tile), (0, 0)))
            parts += [padded[y:y + tile, x:x + tile].tobytes() for y in range(0, height, tile) for x in range(0, width, tile)]
        else:
            parts += [layer[y:y + 5].tobytes() for y in range(0, height, 5)]
    data = b"".join(parts)
    start = 16 if big else 8
    offsets = [start + sum(map(len, parts[:i])) for i in range(len(parts))]
    fields = {256: [width], 257: [height], 258: [bits or 8 * samples.dtype.itemsize] * channels, 259: [1], 262: [photometric], 277: [channels],
              284: [2 if planes else 1], 339: [kind] * channels}
    fields |= {322: [tile], 323: [tile], 324: offsets, 325: list(map(len, parts))} if tile else {273: offsets, 278: [5], 279: list(map(len, parts))}
    fields |= dict(tags)
    wide = {273, 279, 324, 325}
    at, entries, behind = start + len(data), b"", b""
    word, count, entry = ("Q", "Q", 20) if big else ("I", "H", 12)
    room = struct.calcsize("=" + word)
    values_at = at + struct.calcsize("=" + count) + entry * len(fields) + room
    for tag, values in sorted(fields.items()):
        packed = struct.pack(f"{order}{len(values)}{'I' if tag in wide else 'H'}", *values)
        if len(packed) > room:
            packed, behind = struct.pack(order + word, values_at + len(behind)), behind + packed
        entries += struct.pack(f"{order}HH{word}", tag, 4 if tag in wide else 3, len(values)) + packed.ljust(room, b"\0")
    head = (b"II" if order == "<" else b"MM") + (struct.pack(order + "HHHQ", 43, 8, 0, at) if big else struct.pack(order + "HI", 42, at))
    return head + data + struct.pack(order + count, len(fields)) + entries + b"\0" * room + behind


def tiffs(generator):
    width, height = SIZE
    noise = lambda channels, kind=np.uint8, most=None: generator.integers(0, most or min(70000, np.iinfo(kind).max), (height, width, channels)).astype(kind)
    palette = lambda bits: {320: generator.integers(0, 65536, 3 << bits).tolist()}
    found = {}
    for name, order in (("little", "<"), ("big", ">")):
        found |= {
            f"{name}_gray": tiff(noise(1), 1, order), f"{name}_white_is_zero": tiff(noise(1), 0, order), f"{name}_rgb": tiff(noise(3), 2, order),
            f"{name}_planes": tiff(noise(3), 2, order, planes=True), f"{name}_tiles": tiff(noise(3), 2, order, tile=16),
            f"{name}_gray_16": tiff(noise(1, np.uint16, 600), 1, order), f"{name}_rgb_16": tiff(noise(3, np.uint16), 2, order),
            f"{name}_rgba_16": tiff(noise(4, np.uint16), 2, order, {338: [2]}), f"{name}_cmyk_16": tiff(noise(4, np.uint16), 5, order),
            f"{name}_signed_16": tiff(noise(1, np.int16, 600) - 200, 1, order), f"{name}_float": tiff(noise(1, np.uint16, 400).astype(np.float32) - 60, 1, order),
            f"{name}_palette": tiff(noise(1), 3, order, palette(8)), f"{name}_wide_offsets": tiff(noise(3), 2, order, big=True),
        }
    found |= {f"extra_{kind}": tiff(noise(4), 2, tags={338: [kind]}) for kind in (0, 1, 2, 999)}
    found |= {"no_extra": tiff(noise(4), 2), "two_extra": tiff(noise(5), 2, tags={338: [2, 0]}), "gray_alpha": tiff(noise(2), 1, tags={338: [2]}),
              "gray_unknown": tiff(noise(2), 1, tags={338: [0]}), "premultiplied_16": tiff(noise(4, np.uint16), 2, tags={338: [1]}),
              "cmyk_extra": tiff(noise(5), 5, tags={338: [0]}), "planes_tiles": tiff(noise(3), 2, planes=True, tile=16), "reversed_bits": tiff(noise(1), 1, tags={266: [2]}),
              "signed_32": tiff(noise(1, np.int32, 600) - 200, 1), "palette_alpha": tiff(noise(2), 3, tags={338: [0], **palette(8)})}
    for bits in (1, 2, 4):
        rows = generator.integers(0, 256, (height, (width * bits + 7) // 8, 1), dtype=np.uint8)
        for kind, tags in ((0, {}), (1, {}), (3, palette(bits))):
            found[f"bits_{bits}_{kind}"] = tiff(rows, kind, tags={256: [width], **tags}, bits=bits)
    found |= {f"orientation_{i}": tiff(noise(3), 2, tags={274: [i]}) for i in range(1, 10)}
    return found
