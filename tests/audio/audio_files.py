"""Recordings in the formats that libsndfile writes, by the library itself."""
import ctypes
import ctypes.util

import numpy as np

FORMATS = {"wav": 0x010002, "wav_float": 0x010006, "flac": 0x170002, "ogg": 0x200060, "mp3": 0x230082}


class Info(ctypes.Structure):
    _fields_ = [("frames", ctypes.c_int64), ("samplerate", ctypes.c_int), ("channels", ctypes.c_int), ("format", ctypes.c_int),
                ("sections", ctypes.c_int), ("seekable", ctypes.c_int)]


library = ctypes.CDLL(ctypes.util.find_library("sndfile"))
library.sf_open.restype = ctypes.c_void_p
library.sf_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(Info)]
for name in ("sf_writef_float", "sf_readf_float"):
    getattr(library, name).restype = ctypes.c_int64
    getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_float), ctypes.c_int64]
library.sf_close.argtypes = [ctypes.c_void_p]


def write(path, samples, rate, kind="wav"):
    """samples: [frames, channels] or [frames], float32 in -1 … 1."""
    samples = np.ascontiguousarray(samples if samples.ndim == 2 else samples[:, None], dtype=np.float32)
    info = Info(0, rate, samples.shape[1], FORMATS[kind], 0, 0)
    file = library.sf_open(str(path).encode(), 0x20, ctypes.byref(info))
    assert file, f"libsndfile writes no {kind}"
    assert library.sf_writef_float(file, samples.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), len(samples)) == len(samples)
    library.sf_close(file)
    return path


def read(path):
    info = Info()
    file = library.sf_open(str(path).encode(), 0x10, ctypes.byref(info))
    assert file
    samples = np.zeros((info.frames, info.channels), dtype=np.float32)
    count = library.sf_readf_float(file, samples.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), info.frames)
    library.sf_close(file)
    return samples[:count], info.samplerate


def chirp(seconds, rate, channels=1, seed=0):
    """A tone that climbs, and a little noise, which no two channels share."""
    generator, time = np.random.default_rng(seed), np.arange(int(seconds * rate)) / rate
    tone = 0.5 * np.sin(2 * np.pi * (200 * time + 300 * time ** 2))
    noise = generator.normal(0, 0.05, (len(time), channels))
    return np.clip(tone[:, None] + noise, -1, 1).astype(np.float32)


class Quality(ctypes.Structure):
    _fields_ = [("precision", ctypes.c_double), ("phase_response", ctypes.c_double), ("passband_end", ctypes.c_double),
                ("stopband_begin", ctypes.c_double), ("e", ctypes.c_void_p), ("flags", ctypes.c_ulong)]


HIGH_QUALITY = 4  # SOXR_HQ


def resample(samples, rate, to=16000):
    """librosa's resampling by the library that it calls: libsoxr's high quality, the length rounded up."""
    if rate == to:
        return samples
    soxr = ctypes.CDLL(ctypes.util.find_library("soxr"))
    soxr.soxr_oneshot.restype = ctypes.c_char_p
    soxr.soxr_oneshot.argtypes = [ctypes.c_double, ctypes.c_double, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                  ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)] + [ctypes.c_void_p] * 3
    soxr.soxr_quality_spec.restype, soxr.soxr_quality_spec.argtypes = Quality, [ctypes.c_ulong, ctypes.c_ulong]
    quality = soxr.soxr_quality_spec(HIGH_QUALITY, 0)
    length, samples = -(-len(samples) * to // rate), np.ascontiguousarray(samples, dtype=np.float32)
    out, done = np.zeros(length + 64, dtype=np.float32), ctypes.c_size_t()
    assert soxr.soxr_oneshot(rate, to, 1, samples.ctypes.data, len(samples), None, out.ctypes.data, len(out), ctypes.byref(done), None,
                             ctypes.addressof(quality), None) is None
    out[done.value:] = 0
    return out[:length]
