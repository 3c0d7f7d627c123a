"""torch_npu's HCCL backend between processes; each prints what it holds after every collective."""
import os

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(rank)
dist.init_process_group("hccl", rank=rank, world_size=size)
x = torch.arange(4, dtype=torch.float32).npu() + rank


def show(name, tensor):
    line = f"{rank} {name} {[round(v, 3) for v in tensor.float().cpu().flatten().tolist()]}\n"
    os.write(1, line.encode())  # in one piece: both processes write to one pipe


total = x.clone()
dist.all_reduce(total)
show("all_reduce", total)
half = x.to(torch.bfloat16)
dist.all_reduce(half, op=dist.ReduceOp.MAX)
show("all_reduce_max_bf16", half)
gathered = torch.empty(4 * size).npu()
dist.all_gather_into_tensor(gathered, x)
show("all_gather", gathered)
part = torch.empty(4 // size).npu()
dist.reduce_scatter_tensor(part, x)
show("reduce_scatter", part)
received = x.clone()
dist.broadcast(received, 1)
show("broadcast", received)
swapped = torch.empty(4).npu()
dist.all_to_all_single(swapped, x)
show("all_to_all", swapped)
if rank == 0:
    dist.send(x, 1)
elif rank == 1:
    got = torch.empty(4).npu()
    dist.recv(got, 0)
    show("recv", got)
dist.barrier()
torch.npu.synchronize()
os._exit(0)
