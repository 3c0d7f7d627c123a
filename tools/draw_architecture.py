#!/usr/bin/env python3
"""Writes docs/architecture.svg: the components of hone, bottom to top, and what flows through them.

    python3 tools/draw_architecture.py > docs/architecture.svg

The order of the components is the one that tests/structure checks."""

LAYERS = [  # top to bottom: (component, what it holds)
    [("cli", "options, commands, configs")],
    [("eval", "benchmarks, sampling"), ("tinker", "the tinker SDK's server")],
    [("train", "trainer, losses, RL, reports"), ("serve", "HTTP, OpenAI, Anthropic")],
    [("engine", "scheduler, KV cache, sampler"), ("parallel", "launch, collectives, ZeRO, FSDP"), ("optim", "optimizers, LR")],
    [("tuner", "LoRA, PEFT, quantize"), ("data", "datasets, encoding, batches"), ("notify", "mail, chat")],
    [("model", "decoder, families, weights"), ("media", "images")],
    [("ops", "fused operators, kernels"), ("io", "safetensors, adapters"), ("text", "tokenizer, templates"), ("hub", "models by name")],
    [("device", "CPU, CUDA, NPU")],
    [("base", "errors, files, logging")],
]
FLOWS = [
    ("#2f6f9f", "one batch", ["data", "train", "model", "ops", "optim"]),
    ("#9f4f2f", "one request", ["serve", "engine", "model", "ops"]),
    ("#4f8f3f", "one RL step", ["train", "engine", "train", "optim"]),
]
WIDTH, ROW, GAP, LEFT, HEIGHT = 960, 74, 14, 20, 52


def boxes():
    """component -> (x, y, width) of its box."""
    placed = {}
    for row, layer in enumerate(LAYERS):
        width = (WIDTH - 2 * LEFT - GAP * (len(layer) - 1)) / len(layer)
        for column, (name, _) in enumerate(layer):
            placed[name] = (LEFT + column * (width + GAP), 20 + row * ROW, width)
    return placed


def draw():
    placed = boxes()
    below = 20 + len(LAYERS) * ROW
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {below + 90}" font-family="sans-serif">',
           "<title>Components of hone and three ways through them</title>", f'<rect width="{WIDTH}" height="{below + 90}" fill="#ffffff"/>']
    for layer in LAYERS:
        for name, text in layer:
            x, y, width = placed[name]
            out.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="6" fill="#f3f5f7" stroke="#8a97a3"/>')
            out.append(f'<text x="{x + 12:.0f}" y="{y + 22}" font-size="16" font-weight="bold" fill="#1d2830">{name}</text>')
            out.append(f'<text x="{x + 12:.0f}" y="{y + 41}" font-size="12" fill="#45525c">{text}</text>')
    for number, (color, title, names) in enumerate(FLOWS):
        y = below + 18 + number * 24
        out.append(f'<text x="{LEFT}" y="{y}" font-size="14" font-weight="bold" fill="{color}">{title}</text>')
        out.append(f'<text x="{LEFT + 110}" y="{y}" font-size="14" fill="{color}">{" → ".join(names)}</text>')
        for step, name in enumerate(dict.fromkeys(names), 1):
            x, top, width = placed[name]
            cx = x + width - 16 - 24 * number
            out.append(f'<circle cx="{cx:.0f}" cy="{top + 18}" r="10" fill="{color}"/>')
            out.append(f'<text x="{cx:.0f}" y="{top + 22}" font-size="12" fill="#ffffff" text-anchor="middle">{step}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(draw(), end="")
