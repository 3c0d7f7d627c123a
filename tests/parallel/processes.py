"""Finding, stopping and waiting for the processes of a run."""
import os
import pathlib
import subprocess
import time

from parallel_testing import environment, hone_binary, words


class Started:
    """A run under way: its supervisor, its ranks, what it has printed so far."""

    def __init__(self, line, env, log):
        self.log = pathlib.Path(log)
        self.process = subprocess.Popen([str(word) for word in line], stdout=subprocess.DEVNULL, stderr=self.log.open("w"), env=env)

    def text(self):
        return self.log.read_text()

    def ranks(self):
        found = {}
        own = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        for child in pathlib.Path(own).read_text().split() if os.path.exists(own) else []:
            try:
                environ = pathlib.Path(f"/proc/{child}/environ").read_text()
            except OSError:  # it has just ended
                continue
            settings = dict(pair.split("=", 1) for pair in environ.split("\0") if "=" in pair)
            if "RANK" in settings:
                found[int(settings["RANK"])] = int(child)
        return found

    def signal(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def wait(self, timeout=300):
        try:
            return self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def start(model, dataset, folder, world, env=None, **options):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    settings = dict(num_train_epochs=100000, tuner_type="lora", save_steps=5, save_total_limit=2, peer_timeout=8)
    settings.update(options)
    line = [hone_binary(), "sft", *words(model, dataset, folder, world, **settings)]
    return Started(line, environment(world, **(env or {})), pathlib.Path(folder) / "stderr.txt")


def wait_for(condition, timeout=300, what="it"):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come to pass in {timeout} s")


def steps_logged(folder):
    file = pathlib.Path(folder) / "logging.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0
