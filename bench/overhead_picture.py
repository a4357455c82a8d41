"""overhead_picture.py: prints docs/overhead.svg, of results/overhead.json: how much longer a step of one model is over the device memory that it may
have, under `auto` on each GPU and under the fixed strategies on one of them."""
import json
import pathlib

RESULTS = pathlib.Path(__file__).resolve().parent / "results/overhead.json"
MODEL, TITLE, FIXED_ON = "gpt2:355M", "GPT-2 355M, batch 16, BF16", "H100"
# A strategy's word, its name in the picture, and how far below its point that stands.
FIXED = [("selective", "selective recomputation", 64), ("sqrt", "√L checkpoints", -12), ("uniform:2", "a checkpoint every two stages", -12)]
COLOURS = {"A100": "#1b9e77", "H100": "#2c6fbb", "RTX4090": "#d95f02"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 64, 24, 56, 56
GIB_FROM, GIB_TO, GIB_STEP = 6, 20, 2
MOST, PERCENT_STEP = 25, 5


def x(gib):
    return round(LEFT + (gib - GIB_FROM) / (GIB_TO - GIB_FROM) * (WIDTH - LEFT - RIGHT), 1)


def y(percent):
    return round(HEIGHT - BOTTOM - percent / MOST * (HEIGHT - TOP - BOTTOM), 1)


def text(at_x, at_y, words, anchor="middle", size=12, **more):
    rest = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{at_x}" y="{at_y}" text-anchor="{anchor}" font-size="{size}"{rest}>{words}</text>'


def line(from_x, from_y, to_x, to_y, colour="#d8d8d8", dashes=""):
    return f'<line x1="{from_x}" y1="{from_y}" x2="{to_x}" y2="{to_y}" stroke="{colour}"{dashes and f" stroke-dasharray={chr(34)}{dashes}{chr(34)}"}/>'


def plans(run, policy):
    """(GiB held at the peak, percent longer) of a policy's plans, one for each budget."""
    found = [p for b in run["budgets"] for p in b["plans"] if p["policy"] == policy and "overhead" in p]
    return [(p["peak_bytes"] / 2**30, 100 * p["overhead"]) for p in found]


def axes(keep, state):
    yield text(LEFT, 24, f"{TITLE}: what a smaller memory budget costs", "start", 15, font_weight="bold")
    yield text(LEFT, 42, "predicted by the simulator from traces on the computed clock (bench/results/overhead.md); no GPU has run it", "start", 11, fill="#666")
    for percent in range(0, MOST + 1, PERCENT_STEP):
        yield line(LEFT, y(percent), WIDTH - RIGHT, y(percent))
        yield text(LEFT - 8, y(percent) + 4, f"{percent}%", "end")
    for gib in range(GIB_FROM, GIB_TO + 1, GIB_STEP):
        yield line(x(gib), y(0), x(gib), y(0) + 5, "#888")
        yield text(x(gib), y(0) + 20, gib)
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "device memory at the peak, GiB")
    for gib, what in ((keep, f"keeps everything: {keep:.1f}"), (state, f"weights, gradients, moments: {state:.1f}")):
        yield line(x(gib), y(0), x(gib), y(MOST), "#999", "4 4")
        yield text(x(gib) + 5, y(MOST) + 14, what, "start", 11, fill="#666", transform=f"rotate(90 {x(gib) + 5} {y(MOST) + 14})")


def main():
    runs = {r["gpu"]: r for r in json.loads(RESULTS.read_text())["runs"] if r["model"] == MODEL}
    keep, state = runs[FIXED_ON]["keep_bytes"] / 2**30, runs[FIXED_ON]["state_bytes"] / 2**30
    parts = [*axes(keep, state)]
    for gpu, colour in COLOURS.items():
        points = [(keep, 0.0), *plans(runs[gpu], "auto")]
        parts.append(f'<polyline points="{" ".join(f"{x(a)},{y(b)}" for a, b in points)}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x(a)}" cy="{y(b)}" r="3" fill="{colour}"/>' for a, b in points[1:]]
    for at, (gpu, colour) in enumerate(reversed(COLOURS.items())):
        parts.append(line(x(15), y(22) + 18 * at, x(15) + 26, y(22) + 18 * at, colour))
        parts.append(text(x(15) + 34, y(22) + 18 * at + 4, f"ebb on {gpu.replace('RTX', 'RTX ')}", "start", fill=colour, font_weight="bold"))
    for policy, name, down in FIXED:
        gib, percent = min(plans(runs[FIXED_ON], policy), key=lambda p: p[1])
        parts.append(line(x(gib), y(percent), x(gib), y(percent) + down - (12 if down > 0 else 0), "#999"))
        parts.append(f'<rect x="{x(gib) - 4}" y="{y(percent) - 4}" width="8" height="8" fill="#555"/>')
        parts.append(text(x(gib) - 4, y(percent) + down, f"{name}, {FIXED_ON}", "start", 11, fill="#333"))
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif" role="img">')
    print(f'<title>{TITLE}: overhead over device memory</title>\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    print(*parts, "</svg>", sep="\n")


if __name__ == "__main__":
    main()
