"""Every operator that training and generation use, on npu and on the CPU: values and gradients. Run under emulated cards; prints one line of JSON a case."""
import json
import sys

import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401  (registers npu)

torch.manual_seed(0)
CASES = {}


def case(*inputs, name=None, tolerance=1e-5):
    def keep(function):
        CASES[name or function.__name__] = (inputs, function, tolerance)
        return function
    return keep


def x(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def positive(*shape):
    return torch.rand(*shape) + 0.5


def ids(*shape, below=7):
    return torch.randint(0, below, shape)


for unary in "abs neg sqrt rsqrt reciprocal exp log log2 log1p expm1 sin cos tanh erf sigmoid floor ceil round trunc sign exp2".split():
    case(positive(4, 5), name=unary)(getattr(torch, unary))
for binary in "add sub mul div pow maximum minimum atan2 logaddexp remainder".split():
    case(positive(4, 5), positive(4, 5), name=binary)(getattr(torch, binary))
    if binary not in ("maximum", "minimum", "atan2", "logaddexp"):
        case(positive(4, 5), name=binary + "_scalar")(lambda a, f=getattr(torch, binary): f(a, 1.5))
for comparison in "eq ne lt le gt ge".split():
    case(ids(4, 5), ids(4, 5), name=comparison)(getattr(torch, comparison))
    case(x(4, 5), name=comparison + "_scalar")(lambda a, f=getattr(torch, comparison): f(a, 0.1))
for reduction in "sum mean amax amin max min argmax argmin prod logsumexp std var norm any all".split():
    function = getattr(torch, reduction)
    if reduction not in ("logsumexp",):
        case(x(4, 5), name=reduction)(lambda a, f=function: f(a))
    if reduction not in ("norm", "any", "all"):
        case(x(4, 5), name=reduction + "_dim")(lambda a, f=function: f(a, -1))

case(ids(4, 5), ids(4, 5) + 1, name="floor_divide")(torch.floor_divide)
case(ids(4, 5, below=200), name="shift")(lambda a: a.to(torch.uint8) >> 4)
case(ids(4, 5), name="floor_divide_scalar")(lambda a: a // 2)
case(x(4, 5), name="rsub")(lambda a: 2 - a)
case(x(4, 5), name="rdiv")(lambda a: 2 / a)
case(x(4, 5), name="clamp")(lambda a: a.clamp(-0.5, 0.5))
case(x(4, 5), name="clamp_min")(lambda a: a.clamp_min(0.1))
case(x(4, 5), name="clamp_max")(lambda a: a.clamp_max(0.1))
case(x(4, 5), x(4, 5), x(4, 5), name="addcmul")(lambda a, b, c: torch.addcmul(a, b, c, value=0.3))
case(x(4, 5), x(4, 5), positive(4, 5), name="addcdiv")(lambda a, b, c: torch.addcdiv(a, b, c, value=0.3))
case(x(4, 5), x(4, 5), name="lerp")(lambda a, b: torch.lerp(a, b, 0.3))
case(x(4, 5), name="cumsum")(lambda a: a.cumsum(1))
case(x(4, 5), name="logical")(lambda a: (a > 0) & ~(a > 1) | (a < -1))
case(x(4, 5), name="isfinite")(lambda a: torch.isfinite(a))
case(x(4, 5), name="where")(lambda a: torch.where(a > 0, a, a * 0.1))
case(x(4, 5), name="masked_fill")(lambda a: a.masked_fill(a > 0, -1.0))
case(x(4, 5), name="nonzero")(lambda a: (a > 0).nonzero())
case(x(4, 5), name="masked_select")(lambda a: a.masked_select(a > 0))

case(x(4, 6), x(6, 5), name="mm")(torch.mm)
case(x(4, 6), x(5, 6), x(5), name="linear")(F.linear)
case(x(2, 4, 6), x(5, 6), name="linear_3d")(F.linear)
case(x(5), x(4, 6), x(6, 5), name="addmm")(torch.addmm)
case(x(2, 4, 6), x(2, 6, 5), name="bmm")(torch.bmm)
case(x(2, 3, 4, 6), x(2, 3, 6, 5), name="matmul_4d")(torch.matmul)
case(x(2, 4, 5), x(2, 4, 6), x(2, 6, 5), name="baddbmm")(torch.baddbmm)
case(x(4, 6, dtype=torch.bfloat16), x(6, 5, dtype=torch.bfloat16), name="mm_bf16", tolerance=2e-2)(torch.mm)

case(x(7, 4), ids(2, 3), name="embedding")(lambda w, i: F.embedding(i, w))
case(x(4, 5), ids(4, 3, below=5), name="gather")(lambda a, i: a.gather(1, i))
case(x(7, 4), ids(5), name="index_select")(lambda a, i: a.index_select(0, i))
case(x(7, 4), ids(5), name="index")(lambda a, i: a[i])
case(x(7, 4), name="index_bool")(lambda a: a[torch.tensor([True, False, True, True, False, False, True], device=a.device)])
case(x(7, 4), ids(5), x(5, 4), name="index_add")(lambda a, i, s: a.index_add(0, i, s))
case(x(7, 4), torch.tensor([0, 3]), x(2, 4), name="index_copy")(lambda a, i, s: a.index_copy(0, i, s))
case(x(7, 4), torch.tensor([0, 3]), x(2, 4), name="index_put")(lambda a, i, s: a.index_put((i,), s, accumulate=True))
case(x(4, 5), ids(4, 3, below=5), x(4, 3), name="scatter_add")(lambda a, i, s: a.scatter_add(1, i, s))
case(x(4, 5), torch.tensor([[0, 1], [2, 1], [4, 0], [3, 2]]), x(4, 2), name="scatter")(lambda a, i, s: a.scatter(1, i, s))
case(x(4, 5), ids(4, 1, below=5), name="scatter_value")(lambda a, i: a.scatter(1, i, 1.0))
case(x(4, 9), name="topk")(lambda a: a.topk(3, dim=-1)[0])
case(x(4, 9), name="sort")(lambda a: a.sort(dim=-1, descending=True))
case(x(4, 9), name="argsort")(lambda a: a.argsort(dim=-1))
case(ids(9), name="one_hot")(lambda a: F.one_hot(a, 7))

case(x(2, 3), x(4, 3), name="cat")(lambda a, b: torch.cat([a, b]))
case(x(2, 3), x(2, 3), name="stack")(lambda a, b: torch.stack([a, b], 1))
case(x(2, 3), name="repeat")(lambda a: a.repeat(2, 2))
case(x(2, 3), name="repeat_interleave")(lambda a: a.repeat_interleave(2, 0))
case(x(4, 5), name="transpose_contiguous")(lambda a: a.t().contiguous())
case(x(2, 3, 4), name="permute_reshape")(lambda a: a.permute(2, 0, 1).reshape(4, 6))
case(x(4, 5), name="narrow_chunk")(lambda a: a.narrow(1, 1, 2).chunk(2, 0)[1] * 2)
case(x(4, 5), name="pad")(lambda a: F.pad(a, (1, 2), value=0.5))
case(x(5, 5), name="triu_tril")(lambda a: a.triu(1) + a.tril(-1))
case(x(4, 5), name="flip_roll")(lambda a: a.flip(0).roll(1, 1))
case(x(4, 5), name="to_bf16_and_back", tolerance=1e-2)(lambda a: a.to(torch.bfloat16).to(torch.float32))
case(x(4), name="arange_zeros_full")(lambda a: torch.arange(4, device=a.device) + torch.zeros(4, device=a.device) + torch.full((4,), 2.0, device=a.device) * a)
case(x(4, 5), name="expand_sum")(lambda a: a.unsqueeze(1).expand(4, 3, 5).sum(1))
case(x(4, 5), name="inplace")(lambda a: a.clone().mul_(2).add_(1).sub_(0.5).div_(3).zero_().fill_(2) * a)

case(x(4, 5), name="silu")(F.silu)
case(x(4, 5), name="gelu")(F.gelu)
# torch_npu sends both kinds of gelu to one operator of these chips.
case(x(4, 5), name="gelu_tanh", tolerance=1e-3)(lambda a: F.gelu(a, approximate="tanh"))
case(x(4, 5), name="relu")(F.relu)
case(x(4, 5), name="softplus")(F.softplus)
case(x(4, 5), name="logsigmoid")(F.logsigmoid)
case(x(4, 5), name="softmax")(lambda a: F.softmax(a, -1))
case(x(4, 5), name="log_softmax")(lambda a: F.log_softmax(a, -1))
case(x(4, 7), ids(4), name="cross_entropy")(F.cross_entropy)
case(x(4, 7), torch.tensor([1, -100, 2, 0]), name="cross_entropy_ignored")(F.cross_entropy)
case(x(4, 6), positive(6), x(6), name="layer_norm")(lambda a, w, b: F.layer_norm(a, (6,), w, b))
case(x(4, 6), x(4, 6), name="mse")(F.mse_loss)
case(x(4, 5), name="vector_norm")(lambda a: torch.linalg.vector_norm(a))
case(x(2, 2, 6, 16), x(2, 2, 6, 16), x(2, 2, 6, 16), name="sdpa_causal")(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
case(x(3, 2), x(4), name="foreach")(lambda a, b: torch._foreach_add(torch._foreach_mul([a, b], 2.0), 1.0)[0] + torch._foreach_norm([a, b])[1])


# Through the road of operators that are known by name alone; signs of vectors are the kernel's choice.
case(x(6, 4), name="qr")(lambda a: torch.linalg.qr(a.detach())[1].abs())


# Into given tensors: its own tensor of right vectors op-plugin leaves unwritten, for which hone computes this one on the CPU.
@case(x(6, 4), tolerance=1e-4)
def svd(a):
    given = [torch.empty(shape, device=a.device) for shape in ((6, 4), (4,), (4, 4))]
    u, s, vh = torch.linalg.svd(a.detach(), full_matrices=False, out=given)
    return (u * s) @ vh, s


@case(x(4, 4), x(4, 2), tolerance=1e-4)
def solve_triangular(a, b):
    lower = a.detach().tril(-1) + torch.eye(4, device=a.device)
    return torch.linalg.solve_triangular(lower, b.detach(), upper=False), torch.linalg.solve_triangular(lower.mT, b.detach(), upper=True)


# Fused operators on npu against their definition on the CPU.
def fused(name, definition, *inputs, tolerance=1e-5):
    def decorate(kernel):
        case(*inputs, name=name, tolerance=tolerance)(lambda *held: (kernel if held[0].device.type == "npu" else definition)(*held))
        return kernel
    return decorate


def norm(a, w):
    return a * torch.rsqrt(a.square().mean(-1, keepdim=True) + 1e-6) * w


def rotary(a, cos, sin):
    first, second = a.chunk(2, -1)
    return a * cos + torch.cat([-second, first], -1) * sin


def packed_causal(q, k, v, ends=(3, 8), window=None):
    outs, start = [], 0
    for end in ends:
        s = slice(start, end)
        group = q.shape[1] // k.shape[1]
        scores = torch.einsum("qhd,khd->hqk", q[s], k[s].repeat_interleave(group, 1)) * 0.25
        hidden = torch.ones(end - start, end - start, dtype=torch.bool).triu(1)
        if window:
            hidden |= torch.ones(end - start, end - start, dtype=torch.bool).tril(-window)
        outs.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, float("-inf")).softmax(-1), v[s].repeat_interleave(group, 1)))
        start = end
    return torch.cat(outs)


def triangle(device):
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1).to(device)


@fused("npu_rms_norm", norm, x(4, 16), positive(16))
def _(a, w):
    return torch_npu.npu_rms_norm(a, w, 1e-6)[0]


@fused("npu_rotary_mul", rotary, x(1, 5, 2, 16), torch.rand(1, 5, 1, 16), torch.rand(1, 5, 1, 16))
def _(a, cos, sin):
    return torch_npu.npu_rotary_mul(a, cos, sin)


@fused("npu_swiglu", lambda a: F.silu(a.chunk(2, -1)[0]) * a.chunk(2, -1)[1], x(4, 16))
def _(a):
    return torch_npu.npu_swiglu(a, dim=-1)


@fused("npu_fusion_attention_tnd", packed_causal, x(8, 4, 16), x(8, 2, 16), x(8, 2, 16))
def _(q, k, v):
    return torch_npu.npu_fusion_attention(q, k, v, 4, "TND", atten_mask=triangle(q.device), scale=0.25, actual_seq_qlen=[3, 8],
                                          actual_seq_kvlen=[3, 8], sparse_mode=3)[0]


@fused("npu_fusion_attention_window", lambda q, k, v: packed_causal(q, k, v, (8,), 3), x(8, 2, 16), x(8, 2, 16), x(8, 2, 16))
def _(q, k, v):
    return torch_npu.npu_fusion_attention(q, k, v, 2, "TND", atten_mask=triangle(q.device), scale=0.25, actual_seq_qlen=[8], actual_seq_kvlen=[8],
                                          sparse_mode=4, pre_tockens=2, next_tockens=0)[0]


for layout, order in (("BNSD", (0, 2, 1, 3)), ("BSND", (0, 1, 2, 3))):
    def dense(q, k, v, order=order):
        return torch.stack([packed_causal(*(t.permute(order)[i] for t in (q, k, v)), ends=(6,)) for i in range(2)]).permute(order)

    shape = [2, 6, 4, 16] if layout == "BSND" else [2, 4, 6, 16]
    fused("npu_fusion_attention_" + layout.lower(), dense, x(*shape), x(*shape), x(*shape))(
        lambda q, k, v, layout=layout: torch_npu.npu_fusion_attention(q, k, v, 4, layout, atten_mask=triangle(q.device), scale=0.25, sparse_mode=2)[0])


def paged(q, keys, values):
    outs = []
    for i, (length, blocks) in enumerate(zip((20, 7), ((2, 0), (1,)))):
        k, v = (torch.cat([c[b] for b in blocks], 1)[:, :length].float().repeat_interleave(2, 0) for c in (keys, values))
        outs.append((torch.softmax(q[i].float() @ k.transpose(1, 2) * 0.25, -1) @ v).to(q.dtype))
    return torch.stack(outs).detach()


@fused("npu_fused_infer_attention_score", paged, x(2, 4, 1, 16, dtype=torch.bfloat16), x(3, 2, 16, 16, dtype=torch.bfloat16),
       x(3, 2, 16, 16, dtype=torch.bfloat16), tolerance=1e-2)
def _(q, keys, values):
    table = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32).npu()
    with torch.no_grad():
        return torch_npu.npu_fused_infer_attention_score(q, keys, values, actual_seq_lengths_kv=[20, 7], block_table=table, num_heads=4,
                                                         num_key_value_heads=2, scale=0.25, input_layout="BNSD", block_size=16)[0]


@fused("npu_cross_entropy_loss", lambda a, t: F.cross_entropy(a, t), x(4, 7), torch.tensor([1, -100, 2, 0]))
def _(a, t):
    return torch_npu.npu_cross_entropy_loss(a, t)[0].reshape(())


@fused("npu_cross_entropy_loss_rows", lambda a, t: F.cross_entropy(a, t, reduction="none"), x(4, 7), torch.tensor([1, -100, 2, 0]))
def _(a, t):
    return torch_npu.npu_cross_entropy_loss(a, t, reduction="none")[0]


EXPERTS = torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1], [0, 2]])


def through_experts(tokens, weights):
    order = EXPERTS.flatten().argsort(stable=True)
    rows = tokens[order // 2] * 2
    return (rows[order.argsort()].view(5, 2, -1) * weights.unsqueeze(-1)).sum(1)


@fused("npu_moe_token_permute_unpermute", through_experts, x(5, 16), positive(5, 2))
def _(tokens, weights):
    rows, places = torch_npu.npu_moe_token_permute(tokens, EXPERTS.npu())
    return torch_npu.npu_moe_token_unpermute(rows * 2, places, weights)


def grouped(rows, matrices):
    return torch.cat([rows[:2] @ matrices[0], rows[2:5] @ matrices[1], rows[5:] @ matrices[2]]).detach()


@fused("npu_grouped_matmul", grouped, x(6, 16), x(3, 16, 8))
def _(rows, matrices):
    with torch.no_grad():
        return torch_npu.npu_grouped_matmul([rows], [matrices], group_list=torch.tensor([2, 3, 1]).npu(), split_item=3, group_type=0, group_list_type=1)[0]


def filtered(logits):
    values, order = logits.detach().sort(-1, descending=True)
    hidden = torch.arange(9) >= 4
    shares = values.masked_fill(hidden, float("-inf")).softmax(-1)
    hidden = hidden | (shares.cumsum(-1) - shares >= 0.8)
    return torch.empty_like(values).scatter_(-1, order, values.masked_fill(hidden, float("-inf"))).nan_to_num(neginf=-1e9)


@fused("npu_top_k_top_p", filtered, x(3, 9))
def _(logits):
    with torch.no_grad():
        kept = torch_npu.npu_top_k_top_p(logits, torch.full((3,), 0.8).npu(), torch.full((3,), 4, dtype=torch.int32).npu())
        return kept.nan_to_num(neginf=-1e9)


@fused("_fused_adamw_", lambda p, g: adamw(p, g, fused=True), x(4, 5), x(4, 5))
def _(p, g):
    return adamw(p, g, fused=True)


def adamw(p, g, fused):
    parameter = torch.nn.Parameter(p.detach().clone())
    optimizer = torch.optim.AdamW([parameter], lr=0.1, weight_decay=0.1, fused=fused)
    for _ in range(3):
        parameter.grad = g.detach().clone()
        optimizer.step()
    return parameter.detach()


def run(function, inputs, device):
    held = [i.detach().clone().to(device).requires_grad_(i.is_floating_point()) for i in inputs]
    out = function(*held)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    differentiable = [o for o in outs if o.requires_grad]
    if differentiable:
        sum((o.float() * torch.linspace(0.5, 1.5, o.numel()).to(device).reshape(o.shape)).sum() for o in differentiable).backward()
    grads = [h.grad for h in held if h.grad is not None]
    return [t.detach().cpu() for t in outs + grads]


def compare(name):
    inputs, function, tolerance = CASES[name]
    expected, found = run(function, inputs, "cpu"), run(function, inputs, "npu:0")
    if len(expected) != len(found):
        return f"{len(found)} tensors, expected {len(expected)}"
    for i, (e, f) in enumerate(zip(expected, found)):
        if e.shape != f.shape or e.dtype != f.dtype:
            return f"tensor {i}: {tuple(f.shape)} {f.dtype}, expected {tuple(e.shape)} {e.dtype}"
        if not torch.allclose(e.double(), f.double(), rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"tensor {i} differs by {(e.double() - f.double()).abs().max().item():.3g}"
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(list(CASES)))
    for name in sys.argv[1:] if sys.argv[1:] != ["--list"] else []:
        try:
            trouble = compare(name)
        except Exception as error:
            trouble = f"{type(error).__name__}: {str(error)[:600]}"
        print(json.dumps({"case": name, "trouble": trouble}), flush=True)
        if trouble:  # torch_npu's queue does nothing more after an error: the rest needs a fresh process
            sys.exit(1)
