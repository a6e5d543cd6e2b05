"""The stalls of fault trials as a picture: for each kind of fault, the share of trials (upwards)
whose stall was at most this many ms (to the right, logarithmic). The script writes the SVG by hand,
so that no library is needed.
"""
import html
import math

WIDTH, HEIGHT = 860, 430
LEFT, RIGHT, TOP, BOTTOM = 62, 650, 50, 372
MIN_MS, MAX_MS = 0.1, 3000.0
# Colours that colour-blind readers can tell apart (Okabe and Ito), and dashes for printers.
LOOKS = {"none": ("#888888", "2 3"), "down": ("#0072b2", ""), "pull": ("#56b4e9", "7 3"),
         "hole": ("#d55e00", ""), "hole-tx": ("#e69f00", "7 3"), "hole-rx": ("#cc79a7", "3 2")}
OTHER_LOOK = ("#000000", "")
# Published values of MPTCP under Gloo on a link of the same kind: seconds without progress.
PEER_HOLE_MS, PEER_DOWN_MS = (420, 1720), 510


def x_of(ms):
    clamped = min(max(ms, MIN_MS), MAX_MS)
    return LEFT + (RIGHT - LEFT) * math.log(clamped / MIN_MS) / math.log(MAX_MS / MIN_MS)


def y_of(share):
    return BOTTOM - (BOTTOM - TOP) * share


def line(x1, y1, x2, y2, colour, width=1.0, dash=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}" stroke-dasharray="{dash}"/>')


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(words)}</text>'


def grid():
    parts = []
    for percent in range(0, 101, 25):
        y = y_of(percent / 100)
        parts += [line(LEFT, y, RIGHT, y, "#dddddd"), text(LEFT - 8, y + 4, f"{percent} %", "end")]
    for power in range(round(math.log10(MIN_MS)), math.floor(math.log10(MAX_MS)) + 1):
        ms = 10.0 ** power
        x = x_of(ms)
        parts += [line(x, TOP, x, BOTTOM, "#cccccc"), text(x, BOTTOM + 18, f"{ms:g}", "middle")]
        parts += [line(x_of(ms * k), BOTTOM, x_of(ms * k), BOTTOM + 4, "#888888")
                  for k in range(2, 10) if ms * k < MAX_MS]
    parts += [line(LEFT, BOTTOM, RIGHT, BOTTOM, "#444444"),
              text((LEFT + RIGHT) / 2, BOTTOM + 40, "stall in ms", "middle"),
              text(16, (TOP + BOTTOM) / 2, "share of trials", "middle",
                   f'transform="rotate(-90 16 {(TOP + BOTTOM) / 2})"')]
    return parts


def peer_band():
    low, high = (x_of(ms) for ms in PEER_HOLE_MS)
    down = x_of(PEER_DOWN_MS)
    parts = [f'<rect x="{low:.1f}" y="{TOP}" width="{high - low:.1f}" height="{BOTTOM - TOP}" '
             f'fill="#999999" fill-opacity="0.25"/>', line(down, TOP, down, BOTTOM, "#666666", 1.5, "5 3")]
    for x, words in ((high - 14, "MPTCP, silent hole: 0.42 to 1.72 s"),
                     (down + 16, "MPTCP, link down: 0.51 s")):
        parts.append(text(x, BOTTOM - 12, words, "start",
                          f'fill="#444444" transform="rotate(-90 {x:.1f} {BOTTOM - 12})"'))
    return parts


def curve(values, colour, dash):
    """Steps up at each value, and ends at the largest; the rest of the axis stands at its start."""
    ordered = sorted(values)
    path = f"M{LEFT:.1f} {y_of(0):.1f}"
    for number, ms in enumerate(ordered, 1):
        path += f"H{x_of(ms):.1f}V{y_of(number / len(ordered)):.1f}"
    return (f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>')


def draw(title, stalls):
    """Returns the SVG. stalls: {kind: [ms, ...]}; kinds without values are left out."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
             f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 26, title, "start", 'font-size="15"'), *grid(), *peer_band()]
    y = TOP + 10
    for kind, values in stalls.items():
        if not values:
            continue
        colour, dash = LOOKS.get(kind, OTHER_LOOK)
        parts += [curve(values, colour, dash), line(RIGHT + 16, y, RIGHT + 50, y, colour, 2, dash),
                  text(RIGHT + 58, y + 4, f"{kind}: {len(values)} trials"
                       + (", no fault" if kind == "none" else ""))]
        y += 22
    return "\n".join(parts + ["</svg>", ""])
