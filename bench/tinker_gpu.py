#!/usr/bin/env python3
"""Tenants of `hone serve-tinker` on one NVIDIA GPU, over plain HTTP: the SDK is not needed on that machine.

    bench/tinker_gpu.py [--shape qwen2-7b] [--tenants 32] [--tokens 512] [--rounds 5] [--work FOLDER] [--out FILE]
    bench/tinker_gpu.py --shape qwen2-tiny --tenants 4 --tokens 32    # on a CPU, as a smoke test

Each tenant trains its own LoRA (rank 8) on one shared base with random bf16 weights: forward_backward of one datum and optim_step. A round sends
the steps of all tenants; `at once` waits after the last, `in turn` after each.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import gpu

KEY = "tml-bench-0123456789"
gpu.SHAPES["qwen2-tiny"] = (64, 128, 2, 4, 2, 16, 4096, True)


class Server:
    def __init__(self, model, folder, *words):
        command = [os.environ.get("HONE_BIN", gpu.ROOT / "build/bin/hone"), "serve-tinker", "--model", model, "--tinker_dir", folder, "--api_key", KEY, "--torch_dtype", "bfloat16", "--port", 0,
                   "--verbose", "false", *words]
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        self.lines, self.url = [], None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"is served at (https?://\S+)", line):
                self.url = found[1]
                break
        if not self.url:
            raise SystemExit("the server did not start:\n" + "".join(self.lines))
        threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True).start()

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers={"X-API-Key": KEY, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code != 408:  # the future is not ready: try again
                raise
            text = error.read().decode()
        return text if path == "/metrics" else json.loads(text)

    def result(self, request_id):
        while (answer := self.call("/api/v1/retrieve_future", {"request_id": request_id})).get("type") == "try_again":
            pass
        if "error" in answer:
            time.sleep(0.2)
            raise SystemExit(f"{answer}\n" + "".join(line for line in self.lines if not line.startswith("frame #")))
        return answer

    def number(self, name):
        return float(re.search(rf"^hone_tinker_{name} (\S+)$", self.call("/metrics"), re.M)[1])


class Tenant:
    def __init__(self, server, session, model, index):
        self.server, self.seq = server, 0
        answer = server.call("/api/v1/create_model", {"session_id": session, "model_seq_id": index, "base_model": str(model), "lora_config": {"rank": 8, "seed": index, "train_unembed": False}})
        self.run = server.result(answer["request_id"])["model_id"]

    def send(self, path, body):
        self.seq += 1
        return self.server.call(f"/api/v1/{path}", {"model_id": self.run, "seq_id": self.seq, **body})["request_id"]

    def step(self, tokens):
        ids = [(7 * i + 11) % 256 for i in range(tokens + 1)]
        datum = {"model_input": {"chunks": [{"type": "encoded_text", "tokens": ids[:-1]}]},
                 "loss_fn_inputs": {"target_tokens": {"data": ids[1:], "dtype": "int64"}, "weights": {"data": [1.0 / tokens] * tokens, "dtype": "float32"}}}
        return (self.send("forward_backward", {"forward_backward_input": {"data": [datum], "loss_fn": "cross_entropy"}}),
                self.send("optim_step", {"adam_params": {"learning_rate": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}}))


def best(server, tenants, tokens, rounds, in_turn):
    """Seconds of the best round, and the losses of the last."""
    pool, seconds = concurrent.futures.ThreadPoolExecutor(max(1, len(tenants))), []
    for _ in range(rounds):
        began = time.monotonic()
        if in_turn:
            answers = [[server.result(request) for request in tenant.step(tokens)] for tenant in tenants]
        else:
            answers = list(pool.map(lambda tenant: [server.result(request) for request in tenant.step(tokens)], tenants))
        seconds.append(time.monotonic() - began)
    return min(seconds), [answer[0]["metrics"]["loss:sum"] for answer in answers]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="qwen2-7b")
    p.add_argument("--tenants", type=int, default=32)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--work", default="", help="folder with or for the model; none: one that is removed")
    p.add_argument("--options", default="", help="more words for hone")
    p.add_argument("--out", default="", help="a JSON file")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        model = pathlib.Path(o.work or folder) / o.shape
        if not model.exists():
            gpu.make_model(o.shape, model)
        server = Server(model, pathlib.Path(folder) / "state", "--max_loras", o.tenants, *o.options.split())
        try:
            session = server.call("/api/v1/create_session", {"tags": [], "sdk_version": "bench"})["session_id"]
            tenants = [Tenant(server, session, model, i) for i in range(o.tenants)]
            best(server, tenants, o.tokens, 1, False)
            found = {"card": gpu.card(), "shape": o.shape, "tokens": o.tokens, "at once": {}, "in turn": {}}
            for count in [c for c in (1, 4, 8, 16, 32, 64) if c <= o.tenants]:
                runs, passes = server.number("runs_in_passes_total"), server.number("passes_total")
                seconds, losses = best(server, tenants[:count], o.tokens, o.rounds, False)
                shared = (server.number("runs_in_passes_total") - runs) / max(1, server.number("passes_total") - passes)
                turn, _ = best(server, tenants[:count], o.tokens, o.rounds, True)
                found["at once"][count], found["in turn"][count] = seconds, turn
                print(f"{count:3} tenants: at once {seconds:.3f} s, {count * o.tokens / seconds:.0f} tokens/s, {shared:.1f} runs a pass; in turn {turn:.3f} s, {turn / seconds:.2f} times; "
                      f"losses {min(losses):.4f} to {max(losses):.4f}", flush=True)
        finally:
            server.process.terminate()
            server.process.wait(30)
        if o.out:
            pathlib.Path(o.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
