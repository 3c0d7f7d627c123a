"""Calls that hardware refuses, each with CANN's code. Prints one line of JSON a case: its name and the error's text ('' when it was accepted)."""
import json

import torch
import torch_npu


def on_npu(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype).npu()


def attention(q, k, mask=None, heads=4, ends=(8,), sparse=0):
    return torch_npu.npu_fusion_attention(q, k, k, heads, "TND", atten_mask=mask, actual_seq_qlen=list(ends), actual_seq_kvlen=list(ends), sparse_mode=sparse)


def paged(q, block_size=16, table=torch.int32):
    cache = on_npu(2, 2, block_size, q.shape[-1], dtype=q.dtype)
    return torch_npu.npu_fused_infer_attention_score(q, cache, cache, actual_seq_lengths_kv=[4], block_table=torch.zeros(1, 1, dtype=table).npu(), num_heads=4,
                                                     num_key_value_heads=2, input_layout="BNSD", block_size=block_size)


half = torch.float16
CASES = {
    "matrices_of_two_types": lambda: torch.ops.aten.mm(on_npu(4, 4), on_npu(4, 4, dtype=half)),
    "matrices_of_integers": lambda: torch.mm(on_npu(4, 4, dtype=torch.int64), on_npu(4, 4, dtype=torch.int64)),
    "nine_dimensions": lambda: on_npu(*[1] * 9) + on_npu(*[1] * 9),
    "attention_lengths_do_not_end_at_the_tokens": lambda: attention(on_npu(8, 4, 16, dtype=half), on_npu(8, 4, 16, dtype=half), ends=(3, 7)),
    "attention_wide_head": lambda: attention(on_npu(8, 4, 800, dtype=half), on_npu(8, 4, 800, dtype=half)),
    "attention_float_mask": lambda: attention(on_npu(8, 4, 16, dtype=half), on_npu(8, 4, 16, dtype=half), mask=on_npu(8, 8)),
    "attention_small_mask": lambda: attention(on_npu(8, 4, 16, dtype=half), on_npu(8, 4, 16, dtype=half), mask=on_npu(8, 8).bool(), sparse=3),
    "inference_attention_in_float32": lambda: paged(on_npu(1, 4, 1, 16)),
    "blocks_of_twenty": lambda: paged(on_npu(1, 4, 1, 16, dtype=half), block_size=20),
    "norm_weight_of_another_length": lambda: torch_npu.npu_rms_norm(on_npu(4, 16), on_npu(8)),
    "rotation_of_an_odd_head": lambda: torch_npu.npu_rotary_mul(on_npu(1, 2, 2, 15), on_npu(1, 2, 1, 15), on_npu(1, 2, 1, 15)),
    "fine": lambda: on_npu(2) + on_npu(2),
}

for name, call in CASES.items():
    try:
        call()
        torch.npu.synchronize()
        text = ""
    except RuntimeError as error:
        text = str(error)
    print(json.dumps({"case": name, "text": text[:3000]}), flush=True)
