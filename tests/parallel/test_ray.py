"""`hone ray-submit …` on a local Ray cluster, and on one of two hosts."""
import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile

from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import finish, start

ENVIRONMENT = dict(HONE_PYTHON=sys.executable, RAY_DEDUP_LOGS=0, RAY_DISABLE_IMPORT_WARNING=1, RAY_USAGE_STATS_ENABLED=0, RAY_AUTH_MODE="disabled")


def submit(folder, model, dataset, *, cluster=("--address", "local"), on=lambda line: line, **options):
    line = [hone_binary(), "ray-submit", 2, *cluster, "--cpus_per_worker", "0.5", "--", hone_binary(), "sft", *words(model, dataset, folder, 2, tuner_type="lora", **options)]
    return finish(start(on(line), environment(1, **ENVIRONMENT)), folder, timeout=400)  # a cluster takes its time to come up on a busy machine


def test_a_failure_comes_back(tmp_path, model_folder, dataset):
    run = submit(tmp_path, model_folder, dataset, optim="no_such_optimizer")
    assert run.code == 2, run.out + run.err
    assert "failed first, with code 2" in run.err and "no_such_optimizer" in run.err


@contextlib.contextmanager
def cluster(network, port=6399):
    """A node of Ray on each host; the first is the head."""
    ray = pathlib.Path(sys.executable).with_name("ray")
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # paths of sockets must be short
        nodes = []
        try:
            for host, address in enumerate(network.addresses):
                role = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"] if host == 0 else [f"--address={network.addresses[0]}:{port}"]
                line = [ray, "start", *role, f"--node-ip-address={address}", "--num-cpus=1", "--object-store-memory=80000000", "--block", "--disable-usage-stats"]
                nodes.append(subprocess.Popen(network.on(host, line), env=environment(1, **ENVIRONMENT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                if host == 0:
                    ask = network.on(0, ["bash", "-c", f"until (echo > /dev/tcp/{address}/{port}) 2> /dev/null; do sleep 0.2; done"])
                    subprocess.run(ask, timeout=300, check=True)
            yield f"{network.addresses[0]}:{port}"
        finally:
            for node in reversed(nodes):
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                node.wait(60)


def test_ranks_are_actors_on_two_hosts(hosts, reference, tmp_path, model_folder, dataset):
    network = hosts(2)
    with cluster(network) as address:
        placed = ("--address", address, "--placement_strategy", "STRICT_SPREAD", "--placement_timeout", 300)
        run = submit(tmp_path, model_folder, dataset, cluster=placed, on=lambda line: network.on(0, line), deepspeed="zero3")
    assert_same_training(run, reference("lora", 1))
    assert "[rank 0]" in run.out + run.err and "[rank 1]" in run.out + run.err
