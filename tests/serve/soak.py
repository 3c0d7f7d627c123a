"""Soak test: a server for half an hour with clients that chat, stream, disconnect, send invalid requests and load adapters, during a training run.

Prints a line per minute, and exits with 1 if memory grows, a response has an unexpected status, requests are left over, or the training fails."""
import argparse
import collections
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serve_testing import BINARY, MODEL, ROOT, Server  # noqa: E402

BUSY, MISTAKES = {429}, {400, 404, 405, 413, 422}
EXPECTED = {"chat": {200} | BUSY, "shaped": {200} | BUSY, "nonsense": MISTAKES | BUSY, "load": {200, 400, 404, 409} | BUSY,
            "adapter": {200, 400, 404} | BUSY, "unload": {200, 404, 409} | BUSY}  # what each client may be told
CLIENTS = 6
GROWTH = 48 << 10  # kB, between the end of the warm-up and the end


class Soak:
    def __init__(self, folder, minutes, seed):
        self.folder, self.minutes, self.random = Path(folder), minutes, random.Random(seed)
        self.counts, self.unexplained, self.lock = collections.Counter(), [], threading.Lock()
        self.stop = threading.Event()

    def note(self, what, status, body):
        with self.lock:
            self.counts[f"{what} {status}"] += 1
            if status not in EXPECTED[what]:
                self.unexplained.append(f"{what} {status}: {body[:200]}")

    def train(self, name, steps):
        words = [BINARY, "sft", "--model", MODEL, "--dataset", ROOT / "data/demo.jsonl", "--output_dir", self.folder / name, "--add_version", "false", "--max_steps", steps,
                 "--save_steps", 5, "--save_total_limit", 2, "--torch_dtype", "float32", "--max_length", 256, "--per_device_train_batch_size", 1, "--resume_from_checkpoint", "true"]
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def trainer(self):
        """One short run after the other, every third killed and continued."""
        for number in range(10**6):
            if self.stop.is_set():
                return
            process = self.train("beside", 10 * (number + 1))
            try:
                _, err = process.communicate(timeout=3 if number % 3 == 2 else 600)
                self.counts[f"training {process.returncode}"] += 1
                if process.returncode != 0:
                    self.unexplained.append(f"training ended with {process.returncode}: {err[-300:]}")
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self.counts["training killed"] += 1

    def chat(self, server, rng):
        status, _, body = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * rng.randint(1, 60)}], "max_tokens": rng.randint(1, 40),
                                                               "temperature": rng.choice([0, 1]), "n": rng.choice([1, 1, 2])}, timeout=120)
        self.note("chat", status, body)

    def shaped(self, server, rng):
        shape = rng.choice([{"guided_regex": "[a-c]{1,8}"}, {"response_format": {"type": "json_object"}}, {"guided_choice": ["yes", "no"]}])
        status, _, body = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 24, **shape}, timeout=120)
        self.note("shaped", status, body)

    def leave(self, server, rng):
        stream = server.open_stream("story " * rng.randint(1, 40), max_tokens=300)
        if rng.random() < 0.5:
            stream.recv(rng.randint(1, 2000))
        stream.close()
        self.counts["left"] += 1

    def nonsense(self, server, rng):
        body = rng.choice([b"{", b"[]", json.dumps({"messages": rng.choice([None, 1, [], [{}], [{"role": "x"}]])}).encode(), bytes(rng.randrange(256) for _ in range(200))])
        status, _, text = server.post(rng.choice(["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize"]), body, timeout=60)
        self.note("nonsense", status, text)

    def adapter(self, server, rng):
        name = f"a{rng.randint(0, 3)}"
        status, _, body = server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "adapter"}, timeout=120)
        self.note("load", status, body)
        status, _, body = server.post("/v1/completions", {"model": name, "prompt": "x", "max_tokens": 8}, timeout=120)
        self.note("adapter", status, body)
        status, _, body = server.post("/v1/unload_lora_adapter", {"lora_name": name}, timeout=120)
        self.note("unload", status, body)

    def client(self, server, seed):
        rng = random.Random(seed)
        while not self.stop.is_set():
            work = rng.choices([self.chat, self.shaped, self.leave, self.nonsense, self.adapter], [8, 2, 4, 4, 1])[0]
            try:
                work(server, rng)
            except Exception as problem:  # a client's own trouble is a finding too
                with self.lock:
                    self.unexplained.append(f"{work.__name__}: {type(problem).__name__} {problem}")
                time.sleep(0.2)

    def run(self):
        first = self.train("first", 2)
        _, err = first.communicate(timeout=600)
        if first.returncode != 0:
            sys.exit("the adapter could not be trained:\n" + err)
        shutil.copytree(self.folder / "first/checkpoint-2", self.folder / "adapters/adapter")
        server = Server("--verbose", "false", "--log_interval", "-1", "--adapter_root", self.folder / "adapters", "--vllm_max_num_seqs", "8", "--max_queue", "16")
        threads = [threading.Thread(target=self.client, args=(server, self.random.random()), daemon=True) for _ in range(CLIENTS)]
        threads.append(threading.Thread(target=self.trainer, daemon=True))
        for thread in threads:
            thread.start()
        begin, memory = time.monotonic(), []
        while time.monotonic() - begin < 60 * self.minutes and server.process.poll() is None:
            time.sleep(min(60, 15 * self.minutes))
            memory.append(resident(server))
            print(f"{(time.monotonic() - begin) / 60:5.1f} min  {memory[-1] >> 10} MB  {sum(self.counts.values())} events  {len(self.unexplained)} unexplained", flush=True)
        self.stop.set()
        for thread in threads:
            thread.join(timeout=700)
        rest = server.wait_for(lambda: all(server.metric(f"hone_{name}") == 0 for name in ("requests_live", "requests_running", "cache_blocks_used", "requests_beside")), 60)
        warm = memory[max(1, len(memory) // 4) - 1]
        growth = max(memory[-1] - warm, 0)
        for name, count in sorted(self.counts.items()):
            print(f"  {count:7} {name}")
        for line in self.unexplained[:20]:
            print("  unexplained:", line, flush=True)
        code = server.stop(timeout=600)  # the machine may be busy
        good = not self.unexplained and rest and growth < GROWTH and code == 0
        print(f"soak of {self.minutes:g} minutes: {'good' if good else 'FAILED'}; memory {warm >> 10} -> {memory[-1] >> 10} MB, {len(self.unexplained)} unexplained, "
              f"{'nothing' if rest else 'something'} left behind, the server ended with {code}")
        return 0 if good else 1


def resident(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        sys.exit(Soak(folder, asked.minutes, asked.seed).run())


if __name__ == "__main__":
    main()
