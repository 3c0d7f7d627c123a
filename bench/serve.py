"""What HTTP adds to the engine: 64 streams beside one request for 64 answers, memory of idle streams, cost of a request behind a queue."""
import argparse
import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HONE = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


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

    def ask(self, **fields):
        body = json.dumps({"messages": [{"role": "user", "content": "Text 1: river stone light"}], "temperature": 0, "ignore_eos": True, **fields}).encode()
        began = time.monotonic()
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1/chat/completions", body, {"Content-Type": "application/json"}), timeout=600) as answer:
            reply = json.load(answer)
        return reply["usage"]["completion_tokens"], time.monotonic() - began

    def load(self, requests, concurrency, tokens):
        done = subprocess.run([HONE, "bench", "serve", "--url", self.url, "-n", str(requests), "-c", str(concurrency), "--prompt_words", "3", "--max_tokens", str(tokens), "--format", "json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))

    def resident(self):
        return next(int(line.split()[1]) for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmRSS")) / 1024

    def open_stream(self):
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 4, "ignore_eos": True})
        host, port = self.url.split("//")[1].split(":")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return connection


def overhead(model, streams, tokens):
    with Server(model) as server:
        server.ask(n=streams, max_tokens=8)
        best = {}
        for _ in range(3):
            made, seconds = server.ask(n=streams, max_tokens=tokens)
            best["engine"] = max(best.get("engine", 0), made / seconds)
            run = server.load(streams, streams, tokens)
            if run["output_tokens_per_second"] > best.get("http", 0):
                best.update(http=run["output_tokens_per_second"], first=run["time_to_first_token"]["p50"], gap=run["inter_token_latency"]["p50"])
        print(f"{streams} streams of {tokens} tokens: {best['http']:.0f} tokens/s, first token after {best['first'] * 1e3:.1f} ms, then every {best['gap'] * 1e3:.2f} ms")
        print(f"one request for {streams} answers (the engine, HTTP once): {best['engine']:.0f} tokens/s; ratio {best['http'] / best['engine']:.3f}")


def idle_streams(model, count):
    with Server(model, "--vllm_max_num_seqs", "1", "--max_queue", str(count + 10)) as server:
        server.ask(max_tokens=8)
        blocker = server.open_stream()
        before = server.resident()
        streams = [server.open_stream() for _ in range(count)]
        while server.metric("hone_http_responses_total") < 0:
            time.sleep(0.05)
        time.sleep(0.3)
        live = server.metric("hone_requests_live")
        print(f"{count} streaming connections ({live:.0f} still waiting): {server.resident() - before:.1f} MB")
        for stream in [blocker, *streams]:
            stream.close()


def queue_cost(model):
    with Server(model, "--vllm_max_num_seqs", "8", "--max_queue", "4000") as server:
        server.load(50, 10, 4)
        base = None
        for queued in (10, 100, 1000):
            run = server.load(2000, queued, 4)
            cost = run["seconds"] / run["requests"] * 1e3
            base = base or cost
            print(f"{queued} at a time: {cost:.3f} ms a request, {cost / base:.2f} of that at 10, {run['failed']} failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(ROOT / "models/nano"))
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    overhead(options.model, options.streams, options.tokens)
    idle_streams(options.model, 1000)
    queue_cost(options.model)
