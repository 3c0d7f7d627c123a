"""Overhead of HTTP over the engine: 64 streams compared with build/engine_bench with as many requests (or one request with 64 prompts if it is not built), memory
of idle streams, cost of a request after a long queue, memory after 3,000 requests of varied lengths."""
import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HONE = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))
ENGINE = ROOT / "build/engine_bench"


class Server:
    def __init__(self, model, *flags):
        command = [HONE, "deploy", "--model", model, "--port", "0", "--verbose", "false", "--log_interval", "-1", *flags]
        self.process = subprocess.Popen([str(w) for w in command], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"is served at (\S+)", line):
                self.url = found[1]
                return
        raise SystemExit("the server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def all_in_one(self, answers, tokens, salt):
        """The load test's prompts in one request, with HTTP overhead once. Returns (tokens, seconds)."""
        prompts = [self.post("/tokenize", {"messages": [{"role": "user", "content": f"Text {salt}-{i}: river stone light"}]})["tokens"] for i in range(answers)]
        began = time.monotonic()
        reply = self.post("/v1/completions", {"prompt": prompts, "max_tokens": tokens, "temperature": 0, "ignore_eos": True})
        return reply["usage"]["completion_tokens"], time.monotonic() - began

    def load(self, requests, concurrency, tokens, seed=0):
        done = subprocess.run([HONE, "bench", "serve", "--url", self.url, "-n", str(requests), "-c", str(concurrency), "--prompt_words", "3", "--max_tokens", str(tokens), "--seed", str(seed), "--format", "json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))

    def processor_seconds(self):
        """(of the I/O thread, of all threads)"""
        def read(path):
            fields = open(path).read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        pid = self.process.pid
        return read(f"/proc/{pid}/task/{pid}/stat"), read(f"/proc/{pid}/stat")

    def resident(self):
        return next(int(line.split()[1]) for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmRSS")) / 1024

    def open_stream(self):
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 4, "ignore_eos": True})
        host, port = self.url.split("//")[1].split(":")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return connection


def engine_alone(server, model, streams, tokens, prompt, turn):
    """(tokens per second, seconds until all have their first token) of the engine without HTTP, or with a single HTTP request."""
    if ENGINE.exists():
        words = [ENGINE, "--model", model, "--batch", streams, "--prompt", prompt, "--tokens", tokens]
        done = json.loads(subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout)
        return done["output_tokens_per_second"], streams * prompt / done["prompt_tokens_per_second"]
    made, seconds = server.all_in_one(streams, tokens, turn)
    return made / seconds, server.all_in_one(streams, 1, f"first {turn}")[1]


def overhead(model, streams, tokens):
    alone = "the engine without a server" if ENGINE.exists() else f"one request with {streams} prompts (build/engine_bench is not there)"
    with Server(model) as server:
        server.all_in_one(streams, 4, "warm")
        seen = {name: [] for name in ("http", "first", "gap", "last_first", "engine", "engine_first", "rate_ratio", "first_ratio")}
        io, whole, made = 0, 0, 0
        for turn in range(5):
            before = server.processor_seconds()
            run = server.load(streams, streams, tokens, seed=turn)
            after = server.processor_seconds()
            io, whole, made = io + after[0] - before[0], whole + after[1] - before[1], made + run["output_tokens"]
            rate, first = engine_alone(server, model, streams, tokens, round(run["prompt_tokens"] / run["requests"]), turn)
            now = {"http": run["output_tokens_per_second"], "first": run["time_to_first_token"]["p50"], "gap": run["inter_token_latency"]["p50"],
                   "last_first": run["time_to_first_token"]["max"], "engine": rate, "engine_first": first}
            now |= {"rate_ratio": now["http"] / rate, "first_ratio": now["last_first"] / first}
            for name, value in now.items():
                seen[name].append(value)
        middle = {name: statistics.median(values) for name, values in seen.items()}
        print(f"medians of {len(seen['http'])} runs of {streams} streams of {tokens} tokens, compared with {alone}")
        print(f"{middle['http']:.0f} tokens/s, first token after {middle['first'] * 1e3:.1f} ms, then every {middle['gap'] * 1e3:.2f} ms")
        print(f"alone {middle['engine']:.0f} tokens/s; ratio {middle['rate_ratio']:.3f} ({min(seen['rate_ratio']):.3f} to {max(seen['rate_ratio']):.3f})")
        print(f"all have their first token after {middle['last_first'] * 1e3:.1f} ms, alone {middle['engine_first'] * 1e3:.1f} ms; ratio {middle['first_ratio']:.3f}")
        print(f"the I/O thread needs {io / made * 1e6:.1f} us a token, {io / whole:.3f} of the server's processor time")


def idle_streams(model, count):
    with Server(model, "--vllm_max_num_seqs", "1", "--max_queue", str(count + 10)) as server:
        server.all_in_one(1, 4, "warm")
        blocker = server.open_stream()
        before = server.resident()
        streams = [server.open_stream() for _ in range(count)]
        while (live := server.metric("hone_requests_live")) < count * 0.9:
            time.sleep(0.02)
        print(f"{count} streaming connections ({live:.0f} still waiting): {server.resident() - before:.1f} MB")
        for stream in [blocker, *streams]:
            stream.close()


def queue_cost(model):
    with Server(model, "--vllm_max_num_seqs", "8", "--max_queue", "4000") as server:
        server.load(200, 100, 4)
        base = None
        for queued in (10, 100, 1000):
            run = server.load(2000, queued, 4)
            cost = run["seconds"] / run["requests"] * 1e3
            base = base or cost
            print(f"{queued} at a time: {cost:.3f} ms a request, {cost / base:.2f} of that at 10, {run['failed']} failed")


def growth(model, requests):
    """Resident memory over prompts of varied lengths and concurrency."""
    lengths = random.Random(0)
    with Server(model, "--vllm_enable_prefix_caching", "false") as server:
        sizes, served = {}, 0
        while served < requests:
            prompts = [[lengths.randint(10, 2000) for _ in range(lengths.randint(1, 160))] for _ in range(lengths.randint(1, 40))]
            server.post("/v1/completions", {"prompt": prompts, "max_tokens": lengths.randint(1, 6), "temperature": 0, "ignore_eos": True})
            served += len(prompts)
            sizes[served // (requests // 3) * (requests // 3)] = server.resident()  # the last of each third
        print("resident memory after thirds of", requests, "requests of varied lengths:", ", ".join(f"{size:.0f} MB" for size in list(sizes.values())[:3]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(ROOT / "models/nano"))
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--only", choices=("overhead", "idle", "queue", "growth"))
    options = parser.parse_args()
    parts = {"overhead": lambda: overhead(options.model, options.streams, options.tokens), "idle": lambda: idle_streams(options.model, 1000),
             "queue": lambda: queue_cost(options.model), "growth": lambda: growth(options.model, 3000)}
    for name, part in parts.items():
        if options.only in (None, name):
            part()
