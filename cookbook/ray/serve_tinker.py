#!/usr/bin/env python3
"""A tinker server on an existing Ray cluster: a worker for each model, placed by Ray, and one gateway here.

    ray start --head                                                  # or the cluster you have
    cookbook/ray/serve_tinker.py --api_keys keys --state /shared/tinker --model Qwen/Qwen2.5-7B-Instruct --model Qwen/Qwen3-0.6B --gpus 1

A worker that dies, or whose node does, is started again where there is room; what it knew is in --state, which every node must see.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import ray

HONE = os.environ.get("HONE", "hone")


@ray.remote(max_restarts=-1, max_task_retries=-1)
class TinkerWorker:
    """One `hone serve-tinker` on the node that Ray chose, with the devices that Ray gave."""

    def __init__(self, hone, model, keys, folder, words):
        self.keys = tempfile.NamedTemporaryFile("w", prefix="tinker-keys-")  # readable to its owner alone, gone with the actor
        self.keys.write(keys)
        self.keys.flush()
        command = [hone, "serve-tinker", "--model", model, "--host", ray.util.get_node_ip_address(), "--port", "0", "--api_keys", self.keys.name, "--tinker_dir", folder, *words]
        self.server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.address = None
        for line in self.server.stderr:
            sys.stderr.write(line)
            if found := re.search(r"is served at (https?://\S+)", line):
                self.address = found[1]
                break
        threading.Thread(target=lambda: [sys.stderr.write(line) for line in self.server.stderr], daemon=True).start()

    def url(self):
        """Where it is served. A server that has ended ends the actor, which Ray starts again."""
        if self.server.poll() is not None:
            os._exit(1)
        return self.address

    def stop(self):
        self.server.terminate()
        return self.server.wait(60)


def write_urls(file, urls):
    """Whole or not at all: the gateway reads the file while it is written."""
    fresh = file.with_suffix(".new")
    fresh.write_text("".join(f"{url}\n" for url in urls))
    fresh.replace(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, help="base model of a worker; once for each worker")
    parser.add_argument("--api_keys", required=True, type=pathlib.Path, help="file of tenants and keys, as serve-tinker has it")
    parser.add_argument("--state", required=True, type=pathlib.Path, help="folder that every node sees: what the workers keep")
    parser.add_argument("--address", default="auto", help="of the Ray cluster")
    parser.add_argument("--host", default="127.0.0.1", help="where the gateway listens")
    parser.add_argument("--port", default="8000")
    parser.add_argument("--gpus", type=float, default=0, help="of each worker")
    parser.add_argument("--npus", type=float, default=0, help="of each worker; Ray's resource NPU")
    parser.add_argument("--cpus", type=float, default=1, help="of each worker")
    arguments, words = parser.parse_known_args()  # the rest are options of the workers' serve-tinker
    ray.init(address=arguments.address, log_to_driver=False)
    placed = TinkerWorker.options(num_cpus=arguments.cpus, num_gpus=arguments.gpus, resources={"NPU": arguments.npus} if arguments.npus else {})
    arguments.state.mkdir(parents=True, exist_ok=True)
    keys = arguments.api_keys.read_text()
    workers = [placed.remote(HONE, model, keys, str(arguments.state.resolve() / str(i)), words) for i, model in enumerate(arguments.model)]
    file, urls, now = arguments.state / "workers", None, [None] * len(workers)
    write_urls(file, [])
    gateway = subprocess.Popen([HONE, "serve-tinker", "--worker_urls", f"@{file}", "--api_keys", arguments.api_keys, "--host", arguments.host, "--port", arguments.port])
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1) and gateway.poll() is None:
        answers = {worker.url.remote(): i for i, worker in enumerate(workers)}
        ready, _ = ray.wait(list(answers), num_returns=len(workers), timeout=5)
        for each in ready:
            try:
                now[answers[each]] = ray.get(each)
            except ray.exceptions.RayError as problem:  # it is being started again; the gateway waits for its last address
                print(f"a worker is away: {problem}", file=sys.stderr)
        if (known := sorted(filter(None, now))) != urls:
            write_urls(file, urls := known)
    gateway.terminate()
    gateway.wait(60)
    for worker in workers:
        ray.get(worker.stop.remote(), timeout=90)
        ray.kill(worker)
    time.sleep(0.5)


if __name__ == "__main__":
    main()
