"""`srun hone sft …` on a real Slurm: its daemons without systemd or cgroups, on one host and on two."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import STAGES, finish, start
from workers import free_port


@contextlib.contextmanager
def cluster(folder, nodes, on=lambda node, line: line):
    """The daemons of Slurm for `nodes` of (name, address); on(node, line) is how a line runs on one of them. Gives the environment of its clients."""
    for program in ("slurmctld", "slurmd", "srun", "munged"):
        if not shutil.which(program):
            pytest.fail(f"{program} is not installed; make setup-tests")
    if os.getuid() != 0:
        pytest.skip("the daemons want to be root")
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    for name in ("state", *(f"spool-{name}" for name, _ in nodes)):
        (folder / name).mkdir()
    main, address = nodes[0]
    (folder / "slurm.conf").write_text(
        f"ClusterName=hone\nSlurmctldHost={main}({address})\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\nJobAcctGatherType=jobacct_gather/none\n"
        f"StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\nSlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n"
        f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd-%n.log\nSlurmctldPort={free_port()}\nSlurmdPort={free_port()}\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nPartitionName=all Nodes=ALL Default=YES State=UP\n"
        + "".join(f"NodeName={name} NodeAddr={address} CPUs={os.cpu_count()} State=UNKNOWN\n" for name, address in nodes))
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    silent = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    munge = subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock", f"--pid-file={folder}/munge.pid",
                              f"--log-file={folder}/munge.log", f"--seed-file={folder}/seed"], **silent)
    daemons = [munge]
    try:
        while munge.poll() is None and not (folder / "munge.sock").exists():
            time.sleep(0.05)
        daemons.append(subprocess.Popen(on(0, ["slurmctld", "-D"]), env=env, **silent))
        daemons += [subprocess.Popen(on(node, ["slurmd", "-D"]), env=env, **silent) for node in range(len(nodes))]
        for _ in range(500):
            states = subprocess.run(on(0, ["sinfo", "-h", "-N", "-o", "%t"]), env=env, capture_output=True, text=True).stdout.split()
            if states == ["idle"] * len(nodes):
                break
            time.sleep(0.2)
        else:
            pytest.fail(f"Slurm does not come up; see the logs in {folder}")
        yield env["SLURM_CONF"]
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


def test_srun(reference, tmp_path, model_folder, dataset):
    if os.cpu_count() < 2:
        pytest.skip("two tasks need two cores")
    with cluster(tmp_path, [(socket.gethostname(), "127.0.0.1")]) as conf:
        line = ["srun", "-n2", "--overlap", hone_binary(), "sft", *words(model_folder, dataset, tmp_path / "run", 2, tuner_type="lora", **STAGES)]
        run = finish(start(line, environment(1, SLURM_CONF=conf)), tmp_path / "run")
    assert_same_training(run, reference("lora", 1))


def test_srun_on_two_hosts(hosts, reference, tmp_path, model_folder, dataset):
    """The step's first node is the master, found by its name."""
    network = hosts(2)
    with cluster(tmp_path, list(zip(network.names, network.addresses)), network.on) as conf:
        line = ["srun", "-N2", "-n2", hone_binary(), "sft", *words(model_folder, dataset, tmp_path / "run", 2, tuner_type="lora", deepspeed="zero2")]
        run = finish(start(network.on(0, line), environment(1, SLURM_CONF=conf)), tmp_path / "run")
    assert_same_training(run, reference("lora", 1))
