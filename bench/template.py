"""Chat template rendering: hone and jinja2 (as configured by transformers) with the same template and conversation.

usage: bench/template.py TEMPLATE.jinja [path of template_bench]"""
import json
import os
import subprocess
import sys
import time

from transformers.utils.chat_template_utils import _compile_jinja_template

MESSAGES = []
for _ in range(20):
    MESSAGES.append({"role": "user", "content": "What is the capital of France, and why did it become the capital?"})
    MESSAGES.append({"role": "assistant", "content": "Paris. It grew from a river crossing into the seat of kings, and stayed."})


def jinja2_microseconds(source, rounds=300):
    compiled = _compile_jinja_template(source)
    variables = dict(messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True)
    compiled.render(**variables)
    begin = time.perf_counter()
    for _ in range(rounds):
        compiled.render(**variables)
    return (time.perf_counter() - begin) / rounds * 1e6


def hone_microseconds(path, program):
    command = [program, "--benchmark_filter=render_twenty_turns", "--benchmark_format=json"]
    report = subprocess.run(command, env={**os.environ, "HONE_BENCH_TEMPLATE": path}, capture_output=True, check=True).stdout
    return json.loads(report)["benchmarks"][0]["real_time"] / 1e3


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    path, program = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "build/template_bench"
    peer, ours = jinja2_microseconds(open(path).read()), hone_microseconds(path, program)
    print(f"{os.path.basename(path)}: jinja2 {peer:.0f} us, hone {ours:.0f} us, ratio {peer / ours:.1f}")


main()
