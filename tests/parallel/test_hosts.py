"""Several hosts, and a proxy that delays and cuts what goes between them."""
import signal
import socket
import subprocess
import threading
import time

from parallel_testing import assert_same_training, environment, hone_binary, words, Run
from processes import Started, steps_logged, wait_for
from test_launching import finish, start
from workers import free_port


def node(network, host, count, line, log, **more):
    settings = dict(NNODES=count, NODE_RANK=host, NPROC_PER_NODE=1, MASTER_ADDR="10.77.0.1", MASTER_PORT=29511, **more)
    return Started(network.on(host, line), environment(1, **settings), log)


def test_two_hosts(hosts, reference, tmp_path, model_folder, dataset):
    network = hosts(2)
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path / "run", 2, tuner_type="full", deepspeed="zero3")]
    nodes = [node(network, host, 2, line, tmp_path / f"{host}.txt") for host in (0, 1)]
    codes = [each.wait() for each in nodes]
    assert codes == [0, 0], nodes[0].text() + nodes[1].text()
    run = Run(subprocess.CompletedProcess([], 0, "", nodes[0].text()), tmp_path / "run")
    assert_same_training(run, reference("full", 1))


def test_a_host_that_is_cut_off_is_named_and_left_out(hosts, tmp_path, model_folder, dataset):
    """Three hosts train; the third loses its cable. The others name it, start again without it, and continue from the checkpoint."""
    network, folder = hosts(3), tmp_path / "run"
    line = [hone_binary(), "sft", *words(model_folder, dataset, folder, 2, tuner_type="lora", per_device_train_batch_size=2, num_train_epochs=100000, save_steps=3,
                                         save_total_limit=2, peer_timeout=8, max_restarts=1)]
    nodes = [node(network, host, 3, line, tmp_path / f"{host}.txt", MIN_NNODES=2, HONE_ELASTIC_WAIT=10) for host in range(3)]
    try:
        wait_for(lambda: steps_logged(folder) > 4, what="steps on three hosts")
        network.cut(2)
        wait_for(lambda: "continuing with 2 of 3 nodes" in nodes[0].text(), what="a start with two hosts")
        assert "rank 2" in nodes[0].text() + nodes[1].text(), nodes[0].text()
        before = steps_logged(folder)
        wait_for(lambda: steps_logged(folder) > before + 2, what="steps on two hosts")
        assert nodes[2].wait() == 7, nodes[2].text()
        assert "rank 0" in nodes[2].text() or "rank 1" in nodes[2].text(), nodes[2].text()
        for each in nodes[:2]:
            each.process.send_signal(signal.SIGTERM)
        assert [each.wait() for each in nodes[:2]] == [75, 75], nodes[0].text()
    finally:
        for each in nodes:
            each.stop()


class Proxy(threading.Thread):
    """Forwards TCP connections to a port, late; cut() drops them and takes no more."""

    def __init__(self, port, delay):
        super().__init__(daemon=True)
        self.target, self.delay, self.sockets = port, delay, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.silent = False

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(65536):
                time.sleep(self.delay)
                if not self.silent:
                    sink.sendall(data)
        except OSError:
            pass
        sink.close()


def test_a_slow_and_then_dead_way_to_the_master(tmp_path, model_folder, dataset):
    port = free_port()
    proxy = Proxy(port, delay=0.02)
    proxy.start()
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path / "run", 2, tuner_type="lora", num_train_epochs=100000, peer_timeout=8)]
    shared = dict(WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1")
    first = Started(line, environment(1, RANK=0, LOCAL_RANK=0, MASTER_PORT=port, **shared), tmp_path / "0.txt")
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, what="the master")
    second = Started(line, environment(1, RANK=1, LOCAL_RANK=1, MASTER_PORT=proxy.port, **shared), tmp_path / "1.txt")
    try:
        wait_for(lambda: steps_logged(tmp_path / "run") > 2, what="steps")
        proxy.silent = True  # packets vanish, nobody is told
        assert second.wait() == 7 and f"rank 0 at 127.0.0.1:{proxy.port} has not answered" in second.text(), second.text()
        assert first.wait() == 7 and "rank 1" in first.text(), first.text()
    finally:
        first.stop(), second.stop()
