"""The picture of a PyTorch model: overhead over peak memory, as SVG."""

import xml.sax.saxutils

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 420, 70, 60
BLUE, BROWN = "#1f5fbf", "#b04a1f"


def text(x, y, words, **attributes):
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{xml.sax.saxutils.escape(words)}</text>'


def draw(title, axis, points):
    """points: (bytes, overhead as a share, name, verdict); names that begin with ebb are joined by a line. The SVG, or None where
    there are no points."""
    if not points:
        return None
    points = sorted((most / (1 << 30), 100 * overhead, name, verdict) for most, overhead, name, verdict in points)
    right, top = points[-1][0] * 1.1 or 1, max(max(p[1] for p in points) * 1.15, 10)
    low = min(min(p[1] for p in points), 0)

    def x(v):
        return LEFT + v / right * (WIDTH - LEFT - 20)

    def y(v):
        return HEIGHT - BOTTOM - (v - low) / (top - low) * (HEIGHT - BOTTOM - 40)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', text(LEFT, 20, title, font_size=14),
             f'<path d="M{LEFT} 40V{y(low)}H{WIDTH - 20}" fill="none" stroke="black"/>',
             text(WIDTH / 2, HEIGHT - 15, axis, text_anchor="middle"),
             f'<g transform="translate(18 {HEIGHT / 2}) rotate(-90)">{text(0, 0, "overhead, %", text_anchor="middle")}</g>']
    for i in range(6):
        v, w = right * i / 5, low + (top - low) * i / 5
        parts.append(text(x(v), y(low) + 18, f"{v:.1f}", text_anchor="middle"))
        parts.append(text(LEFT - 8, y(w) + 4, f"{w:.0f}", text_anchor="end"))
    line = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in points if p[2].startswith("ebb"))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{BLUE}"/>')
    for gib, overhead, name, verdict in points:
        note = "" if verdict == "equal" else f" ({verdict})"
        parts.append(f'<circle cx="{x(gib):.1f}" cy="{y(overhead):.1f}" r="4" fill="{BLUE if name.startswith("ebb") else BROWN}"/>')
        parts.append(text(x(gib) + 6, y(overhead) - 6, name + note))
    return "\n".join(parts) + "\n</svg>\n"
