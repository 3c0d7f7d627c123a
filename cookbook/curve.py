"""A curve of one logged number as SVG, out of the logging.jsonl of one run or several.

    python cookbook/curve.py OUT.svg KEY [--seconds] LABEL=RUN/logging.jsonl …

By the number of the step, or by the seconds since the run's start.
"""
import json
import sys

COLORS = ("#2a6fbb", "#c0504d", "#5b8f3a")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 240, 50, 500, 20, 200


def points_of(path, key, seconds):
    found = []
    for event in map(json.loads, open(path)):
        if key in event and "global_step/max_steps" in event:
            step = int(str(event["global_step/max_steps"]).split("/")[0])
            found.append((step * event["train_speed(s/it)"] if seconds else step, event[key]))
    return found


def rounded_steps(low, high, count=4):
    """Numbers to mark an axis with."""
    size = (high - low) / count or 1
    unit = 10 ** len(str(int(size))) / 10 if size >= 1 else 10 ** -next(i for i in range(1, 12) if size * 10**i >= 1)
    size = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= size)
    first = int(low / size) * size
    return [first + i * size for i in range(count + 3) if low - 1e-9 <= first + i * size <= high + 1e-9]


def drawn(curves, key, seconds):
    xs, ys = ([point[axis] for points in curves.values() for point in points] for axis in (0, 1))
    low, high, first, last = min(ys), max(ys), min(xs), max(xs)
    x = lambda value: LEFT + (RIGHT - LEFT) * (value - first) / (last - first or 1)
    y = lambda value: BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low or 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">']
    for mark in rounded_steps(low, high):
        parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="#ddd"/><text x="{LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for mark in rounded_steps(first, last, 5):
        parts.append(f'<text x="{x(mark):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{mark:g}</text>')
    for place, ((label, points), color) in enumerate(zip(curves.items(), COLORS)):
        line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/><text x="{LEFT + 8 + 150 * place}" y="{TOP - 6}" fill="{color}">{label}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{"seconds" if seconds else "step"}: {key}</text></svg>')
    return "".join(parts) + "\n"


def main(words):
    seconds = "--seconds" in words
    target, key, *runs = [word for word in words if word != "--seconds"]
    curves = {label: points_of(path, key, seconds) for label, _, path in (run.partition("=") for run in runs)}
    empty = [label for label, points in curves.items() if not points]
    if empty:
        sys.exit(f"no {key} in the log of {', '.join(empty)}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(drawn(curves, key, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
