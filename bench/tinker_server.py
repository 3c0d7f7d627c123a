#!/usr/bin/env python3
"""The tinker server compared with `hone sft`: overhead of a request beyond its model passes, several runs in one pass or sequentially, memory of waiting clients.

Several runs are driven twice: over plain HTTP with the SDK's messages, which measures the server, and by the SDK, whose clients in one Python process
take their own share of this machine's cores. Each row is followed by where its time went.

    tools/make_model.py --family qwen2 --size 0.5b --out models/qwen2-0.5b
    bench/tinker_server.py --model models/qwen2-0.5b --run_tokens  # overhead at the shape of 0.5B
    bench/tinker_server.py --model models/nano [--tokens 128] [--steps 4] [--runs 16]

Results are written to bench/results/tinker-COMMIT.json.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
for folder in (ROOT / ".venv/tinker", ROOT / "tests/serve"):
    sys.path.append(str(folder))
from host import Results  # noqa: E402
from serve_testing import BINARY, Server  # noqa: E402

import tinker  # noqa: E402
from tinker import types  # noqa: E402
from tinker.proto.request_conv import forward_backward_request_to_proto  # noqa: E402

KEY = "tml-bench-0123456789"
ADAM = types.AdamParams(learning_rate=1e-4)


class Bench:
    def __init__(self, model, folder):
        self.model, self.services = model, []
        self.server = Server("--tinker_dir", folder, "--api_key", KEY, "--torch_dtype", "float32", "--verbose", "false", verb="serve-tinker", model=model)

    def client(self, rank=8):
        self.services.append(tinker.ServiceClient(base_url=self.server.url, api_key=KEY))
        return self.services[-1].create_lora_training_client(base_model=self.model, rank=rank, train_unembed=False).result()

    def stop(self):
        """Sessions end first: their clients would go on with heartbeats, beside what is timed next."""
        for end in [service.close("success") for service in self.services]:
            with contextlib.suppress(Exception):
                end.result(5)
        self.server.stop()

    def numbers(self):
        """The server's metrics by name, and the processor seconds of both sides."""
        text = self.server.request("GET", "/metrics", headers={"X-API-Key": KEY})[2]
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        found = {name: float(value) for name, value in re.findall(r"^hone_tinker_(\w+) (\S+)$", text, re.M)}
        return {**found, "server_cpu": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), "client_cpu": time.process_time()}

    def number(self, name):
        return self.numbers()[name]

    def resident(self):
        return int(pathlib.Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def datum(tokens):
    ids = [(7 * i + 11) % 256 for i in range(tokens + 1)]
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], "weights": [1.0 / tokens] * tokens})


def overhead(bench, tokens, steps):
    """Wall time of forward_backward and optim_step at the client, and the part spent in model passes."""
    client, data = bench.client(), [datum(tokens)]
    client.forward_backward(data, "cross_entropy").result()
    client.optim_step(ADAM).result()
    passes, began = bench.number("pass_seconds_total"), time.monotonic()
    for _ in range(steps):
        client.forward_backward(data, "cross_entropy").result()
    wall, inside = time.monotonic() - began, bench.number("pass_seconds_total") - passes
    began = time.monotonic()
    pairs = [(client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)) for _ in range(steps)]
    for forward, update in pairs:
        forward.result(), update.result()
    return wall / steps, inside / steps, (time.monotonic() - began) / steps


def command_line(model, tokens, steps, folder):
    """Seconds per step of `hone sft` on rows of about as many tokens, all labeled, from its log."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": "one two three four five six seven eight " * (tokens // 8)}) + "\n" for _ in range(steps + 2)))
    subprocess.run([BINARY, "pt", "--model", model, "--dataset", rows, "--output_dir", folder / "run", "--add_version", "false", "--torch_dtype", "float32", "--split_dataset_ratio", "0", "--tuner_type", "lora",
                    "--lora_rank", "8", "--max_length", str(tokens + 1), "--truncation_strategy", "right", "--max_steps", str(steps + 2), "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "1",
                    "--logging_steps", "1", "--save_strategy", "no", "--lora_dropout", "0"], check=True, capture_output=True)
    events = [event for event in map(json.loads, (folder / "run/logging.jsonl").read_text().splitlines()) if "loss" in event and "train_speed(s/it)" in event]
    ends = [event["train_speed(s/it)"] * number for number, event in enumerate(events, 1)]  # whole seconds of elapsed_time are too coarse
    return (ends[-1] - ends[1]) / (len(ends) - 2)


class SdkTenant:
    def __init__(self, bench):
        self.client = bench.client()

    def parts(self, data):
        """A step; it pauses where the other tenants have their turn."""
        sent = [self.client.forward_backward(data, "cross_entropy"), self.client.optim_step(ADAM)]
        yield
        for each in sent:
            each.result()


class HttpTenant:
    """The SDK's messages over two connections, one of requests and one of polls."""

    def __init__(self, bench):
        self.run, self.seq = bench.client().model_id, 0
        self.requests, self.polls = ([socket.create_connection(bench.server.address, 120), b""] for _ in range(2))
        self.message = None

    def post(self, connection, path, body, kind="json"):
        head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {KEY}\r\nAccept: application/x-protobuf\r\nContent-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection[0].sendall(head.encode() + body)

    @staticmethod
    def answer(connection, statuses=(200,)):
        def more():
            received = connection[0].recv(1 << 16)
            if not received:
                raise SystemExit("the server closed a connection")
            connection[1] += received
        while b"\r\n\r\n" not in connection[1]:
            more()
        head, _, connection[1] = connection[1].partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)^content-length: *(\d+)", head, re.M)[1])
        while len(connection[1]) < length:
            more()
        body, connection[1] = connection[1][:length], connection[1][length:]
        if (status := int(head.split(None, 2)[1])) not in statuses:
            raise SystemExit(f"{head.decode()}\n{body.decode(errors='replace')}")
        return status

    def poll(self, connection, seq):
        self.post(connection, "retrieve_future", json.dumps({"request_id": f"{self.run}:{seq}"}).encode())

    def wait(self, connection, seq):
        while self.answer(connection, (200, 408)) == 408:  # not done within the server's half minute
            self.poll(connection, seq)

    def parts(self, data):
        """As SdkTenant's."""
        if self.message is None:
            content = types.ForwardBackwardInput(data=data, loss_fn="cross_entropy")
            self.message = forward_backward_request_to_proto(types.ForwardBackwardRequest(forward_backward_input=content, model_id=self.run, seq_id=1))
        self.seq += 2
        self.message.seq_id = self.seq - 1
        self.post(self.requests, "forward_backward", self.message.SerializeToString(), "x-protobuf")
        yield
        self.answer(self.requests)
        self.poll(self.polls, self.seq - 1)
        self.post(self.requests, "optim_step", json.dumps({"model_id": self.run, "seq_id": self.seq, "adam_params": {"learning_rate": 1e-4}}).encode())
        yield
        self.answer(self.requests)
        self.poll(self.requests, self.seq)
        yield
        self.wait(self.polls, self.seq - 1)
        self.wait(self.requests, self.seq)


def advance(tenants, data):
    """A step of each, all at once."""
    for _ in itertools.zip_longest(*(tenant.parts(data) for tenant in tenants)):
        pass


def timed(bench, tenants, data, in_turn):
    before, began = bench.numbers(), time.monotonic()
    for group in ([[tenant] for tenant in tenants] if in_turn else [tenants]):
        advance(group, data)
    seconds, after = time.monotonic() - began, bench.numbers()
    return seconds, {name: after[name] - before[name] for name in after}


def where(seconds, costs):
    milliseconds = {name: 1e3 * costs.get(key, 0) for name, key in
                    (("in passes", "pass_seconds_total"), ("in optimizer steps", "optim_seconds_total"), ("writing results", "commit_seconds_total"), ("waiting for announced requests", "hold_seconds_total"))}
    return (f"{1e3 * seconds:.0f} ms: {costs['passes_total']:.0f} passes of {costs['runs_in_passes_total'] / max(1, costs['passes_total']):.1f} runs, "
            + ", ".join(f"{value:.0f} {name}" for name, value in milliseconds.items()) + f"; processor ms: server {1e3 * costs['server_cpu']:.0f}, client {1e3 * costs['client_cpu']:.0f}")


def together(bench, tenants, tokens, rounds=5):
    """Seconds of a step of all runs, best of `rounds`: sequentially and at once, each with where they went; and by the number of concurrent runs."""
    data = [datum(tokens)]
    for tenant in tenants:
        tenant.message = None
    advance(tenants, data)
    best = {in_turn: min((timed(bench, tenants, data, in_turn) for _ in range(rounds)), key=lambda each: each[0]) for in_turn in (True, False)}
    counts = [count for count in (1, 2, 4, 8) if count < len(tenants)]
    return best[True], best[False], {count: min(timed(bench, tenants[:count], data, False)[0] for _ in range(rounds)) for count in counts}


def polls(bench, count=2000):
    client = bench.client(2)
    headers = {"X-API-Key": KEY}
    answer = bench.server.request("POST", "/api/v1/optim_step", {"model_id": client.model_id, "seq_id": 2, "adam_params": {}}, headers=headers)[2]
    body = json.dumps({"request_id": json.loads(answer)["request_id"]}).encode()
    request = f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    before, waiting = bench.resident(), []
    for _ in range(count):
        waiting.append(socket.create_connection(bench.server.address, 30))
        waiting[-1].sendall(request)
    for _ in range(100):
        if bench.number("polls_open") >= count:
            break
        time.sleep(0.1)
    return bench.number("polls_open"), bench.resident() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=128, help="of a datum when one run is timed")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--runs", type=int, default=16, choices=(1, 2, 4, 8, 16, 32))
    parser.add_argument("--run_tokens", type=int, nargs="*", default=[1, 2, 4, 8, 32], help="of a datum of each run when several are timed; none: only one run is")
    arguments = parser.parse_args()
    config = json.loads((pathlib.Path(arguments.model) / "config.json").read_text())
    shape = f"{config['num_hidden_layers']} layers of {config['hidden_size']}, vocabulary {config['vocab_size']}"
    print(f"{arguments.model}: {shape}, float32, LoRA of rank 8, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    results = Results("tinker")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.model, pathlib.Path(folder) / "state")
        try:
            opened, grown = polls(bench)
            results.row(f"{opened:.0f} open polls, MB / 200", grown / 1e6, 200, 1, at_most=True)
            wall, inside, step = overhead(bench, arguments.tokens, arguments.steps)
            results.row(f"{shape}: forward_backward of {arguments.tokens} tokens at the client / its passes, s", wall, inside, 1.03, at_most=True)
            for kind, name, aim in ((HttpTenant, "over HTTP", 4), (SdkTenant, "by the SDK", 4)):
                tenants = [kind(bench) for _ in range(arguments.runs)] if arguments.run_tokens else []
                for tokens in arguments.run_tokens:
                    apart, at_once, fewer = together(bench, tenants, tokens)
                    results.row(f"{shape}: {arguments.runs} runs of {tokens} tokens {name} at once / in turn, s", at_once[0], apart[0], aim, seconds=True)
                    print(f"  at once {where(*at_once)}\n  in turn {where(*apart)}\n  fewer at once, ms: " + ", ".join(f"{count}: {1e3 * seconds:.0f}" for count, seconds in fewer.items()))
        finally:
            bench.stop()
        cli = command_line(arguments.model, arguments.tokens, arguments.steps, pathlib.Path(folder))
        results.row(f"{shape}: a step of {arguments.tokens} tokens, server / hone pt, s", step, cli, 1.1, at_most=True)


if __name__ == "__main__":
    main()
