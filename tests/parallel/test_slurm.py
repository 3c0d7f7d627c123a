"""`srun hone sft …` on a real Slurm: its daemons on loopback, without systemd or cgroups."""
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import finish, free_port, start


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    for program in ("slurmctld", "slurmd", "srun", "munged"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    if os.getuid() != 0:
        pytest.skip("the daemons want to be root")
    folder = tmp_path_factory.mktemp("slurm")
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname()
    (folder / "slurm.conf").write_text(
        f"ClusterName=hone\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\nJobAcctGatherType=jobacct_gather/none\n"
        f"StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n"
        f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\nSlurmctldPort={free_port()}\nSlurmdPort={free_port()}\n"
        f"SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\n"
        "PartitionName=all Nodes=ALL Default=YES State=UP\n")
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    munge = subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock", f"--pid-file={folder}/munge.pid",
                              f"--log-file={folder}/munge.log", f"--seed-file={folder}/seed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    daemons = [munge]
    try:
        while munge.poll() is None and not (folder / "munge.sock").exists():
            time.sleep(0.05)
        daemons += [subprocess.Popen([program, "-D"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for program in ("slurmctld", "slurmd")]
        for _ in range(500):
            if "idle" in subprocess.run(["sinfo"], env=env, capture_output=True, text=True).stdout:
                break
            time.sleep(0.2)
        else:
            pytest.skip(f"Slurm does not come up here; see {folder}")
        yield env["SLURM_CONF"]
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


def test_srun(slurm, reference, tmp_path, model_folder, dataset):
    if os.cpu_count() < 2:
        pytest.skip("two tasks need two cores")
    line = ["srun", "-n2", "--overlap", hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, tuner_type="lora", deepspeed="zero3")]
    run = finish(start(line, environment(1, SLURM_CONF=slurm)), tmp_path)
    assert_same_training(run, reference("lora", 1))
