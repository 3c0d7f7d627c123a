"""Two workers of pytest-xdist on one machine: each keeps to its share of the cores and to its own range of ports."""
import fcntl
import hashlib
import os
import random
import socket

SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ
NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
COUNT = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
FIRST_PORT, PORTS = 20000, 2000  # below those that the kernel hands out to clients
THREADS = max(1, len(os.sched_getaffinity(0)) // COUNT)


def pytest_configure(config):
    """Before anything imports torch, and for every program that tests start. Threads that wait must not keep a core from others."""
    if SIDE_BY_SIDE:
        os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def free_port():
    while True:
        port = FIRST_PORT + NUMBER * PORTS + random.randrange(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def made_once(tmp_path_factory, what, make):
    """The folder that make(folder) filled, called by whichever worker is the first to ask for `what`; the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if SIDE_BY_SIDE else base) / "shared"
    place.mkdir(exist_ok=True)
    folder = place / hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            partial.mkdir(exist_ok=True)
            make(partial)
            partial.rename(folder)
    return folder
