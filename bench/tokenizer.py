"""Speed of hone's tokenizer and the `tokenizers` package on the same texts, one thread.

    bench/tokenizer.py [--bench build/tokenizer_bench]

English is the source text of Python's own library, Chinese is generated from common words; the vocabulary is Qwen's.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from tokenizers import Tokenizer  # noqa: E402

from tests.tokenizer import vocabularies  # noqa: E402

WORDS = ("的 一 是 在 不 了 有 和 人 这 中 大 为 上 个 国 我 以 要 他 时 来 用 们 生 到 作 地 于 出 就 分 对 成 会 可 主 发 年 动 同 工 也 能 下 过 子 说 产 种 面 而 方 后 多 定 行 学 法 所 "
         "机器 学习 模型 数据 训练 人工智能 今天 天气 中国 社会 经济 发展 我们 他们 公司 研究 问题 系统 技术 管理 工作 国家 时间 可以 进行 没有 如果 因为 所以 语言 计算 网络 城市 历史 文化").split()


def english(size):
    out, length = [], 0
    for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py")):
        out.append(path.read_text(errors="ignore"))
        length += len(out[-1])
        if length > size:
            break
    return "".join(out)[:size]


def chinese(size, rng=random.Random(1)):
    out, length = [], 0
    while length < size:
        out.append("".join(rng.choice(WORDS) for _ in range(rng.randrange(3, 20))) + rng.choice("，。；：！？、\n"))
        length += 3 * len(out[-1])
    return "".join(out)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bench", default="build/tokenizer_bench")
    bench = arguments.parse_args().bench
    with tempfile.TemporaryDirectory() as scratch:
        folder = vocabularies.save(vocabularies.qwen(), pathlib.Path(scratch) / "qwen")
        start = time.perf_counter()
        peer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        peer_load = time.perf_counter() - start
        measure = lambda path, repeats: json.loads(subprocess.run([bench, str(folder), str(path), str(repeats)], check=True, capture_output=True, text=True).stdout)
        print(f"{'text':10} {'tokenizers MB/s':>16} {'hone MB/s':>10} {'ratio':>7}")
        for name, text in (("english", english(3_000_000)), ("chinese", chinese(3_000_000))):
            path = pathlib.Path(scratch) / name
            path.write_text(text)
            start = time.perf_counter()
            ids = peer.encode(text, add_special_tokens=False).ids
            speed = path.stat().st_size / 1e6 / (time.perf_counter() - start)
            ours = measure(path, 3)
            assert ours["tokens"] == len(ids), "the ids differ: run tests/tokenizer first"
            print(f"{name:10} {speed:16.2f} {ours['mb_per_s']:10.2f} {ours['mb_per_s'] / speed:6.1f}x")
        print(f"{'load':10} {peer_load:14.3f} s {ours['load_s']:8.3f} s {peer_load / ours['load_s']:6.1f}x")
        for megabytes in (1, 2, 5, 10):
            path = pathlib.Path(scratch) / "run"
            path.write_bytes(b"a" * megabytes * 1_000_000)
            print(f"run of one letter, {megabytes:2} MB: {measure(path, 1)['mb_per_s']:6.2f} MB/s")


if __name__ == "__main__":
    main()
