#!/usr/bin/env python3
"""The predictions of docs/scaling.md: step time of data parallel and sharded training from the speed of devices and links.

    bench/scaling.py                                       the table of the page
    bench/scaling.py --parameters 7.6e9 --tokens_per_second 4034 --devices 8 64 1024

The model. The compute time of n devices is that of one device on its own share. Weights are communicated as often as the
strategy requires; communication overlaps with the computation of neighboring blocks, except for the first block.
Every collective has a latency that grows with the number of nodes.
"""
import argparse
import dataclasses


@dataclasses.dataclass
class Cluster:
    inside: float = 149e9    # bytes/s that one device gathers inside a node (8 x 910B, all-gather)
    between: float = 25e9    # bytes/s of one device's link out of its node (200 Gb/s RoCE)
    per_node: int = 8
    latency: float = 30e-6   # seconds of a collective inside a node, and once more for each doubling of nodes

    def rate(self, n):
        return self.inside if n <= self.per_node else min(self.inside, self.between)

    def delay(self, n):
        doublings = max(0, (n + self.per_node - 1) // self.per_node - 1).bit_length()
        return self.latency * (1 + doublings)


@dataclasses.dataclass
class Work:
    parameters: float = 7.6e9
    blocks: int = 28
    tokens: int = 16384              # of one device in one step
    tokens_per_second: float = 4034  # of one device alone, forward and backward
    weight_bytes: int = 2            # on the wire
    gradient_bytes: int = 4          # summed in float32

    @property
    def compute(self):
        return self.tokens / self.tokens_per_second


def passage(work, cluster, n, size):
    """Seconds to communicate (n - 1) / n of `size` bytes per parameter, block by block."""
    return work.parameters * size * (n - 1) / n / cluster.rate(n) + work.blocks * cluster.delay(n)


def hidden(communication, computation, blocks):
    """The exposed communication: its first block, and what the computation is too short to hide."""
    return communication / blocks + max(0.0, communication * (blocks - 1) / blocks - computation)


def step(work, cluster, n, strategy):
    forward, backward = work.compute / 3, work.compute * 2 / 3
    if n == 1:
        return work.compute
    if strategy == "ddp":
        return work.compute + hidden(2 * passage(work, cluster, n, work.gradient_bytes), backward, work.blocks)
    if strategy == "zero3":
        gather, reduce = passage(work, cluster, n, work.weight_bytes), passage(work, cluster, n, work.gradient_bytes)
        return work.compute + hidden(gather, forward, work.blocks) + hidden(gather + reduce, backward, work.blocks)
    if strategy == "hybrid":  # shards inside a node, their gradients summed between nodes
        inside = min(n, cluster.per_node)
        gather, reduce = passage(work, cluster, inside, work.weight_bytes), passage(work, cluster, inside, work.gradient_bytes)
        nodes = n // inside
        across = 0.0
        if nodes > 1:
            across = 2 * work.parameters * work.gradient_bytes / inside * (nodes - 1) / nodes / cluster.between + work.blocks * cluster.delay(n)
        return work.compute + hidden(gather, forward, work.blocks) + hidden(gather + reduce + across, backward, work.blocks)
    raise ValueError(strategy)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Work):
        p.add_argument(f"--{field.name}", type=float, default=field.default)
    for field in dataclasses.fields(Cluster):
        p.add_argument(f"--{field.name}", type=float, default=field.default)
    p.add_argument("--devices", type=int, nargs="+", default=[1, 8, 64, 1024])
    a = p.parse_args()
    work = Work(**{f.name: type(f.default)(getattr(a, f.name)) for f in dataclasses.fields(Work)})
    cluster = Cluster(**{f.name: type(f.default)(getattr(a, f.name)) for f in dataclasses.fields(Cluster)})
    print(f"{'devices':>8} {'strategy':>9} {'s/step':>8} {'tokens/s':>12} {'efficiency':>11}")
    for n in a.devices:
        for strategy in ("ddp", "zero3", "hybrid") if n > 1 else ("ddp",):
            seconds = step(work, cluster, n, strategy)
            print(f"{n:8} {strategy if n > 1 else 'one':>9} {seconds:8.3f} {n * work.tokens / seconds:12.0f} {work.compute / seconds:11.3f}")


if __name__ == "__main__":
    main()
