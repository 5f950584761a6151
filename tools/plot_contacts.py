"""Chart of bench/results/contacts.csv: errors and cost of the contact methods, a row for each method and mode, a dot for each scene."""
import csv
import html
import math
import os

import plot

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench", "results", "contacts.csv")
PANELS = (("forward", "error of the motion", -4, 0), ("gradient", "error of the gradient", -4, 1), ("cost", "cost, of soft exact", -1, 1))
LEFT, TOP, WIDTH, GAP, STEP = 105, 62, 185, 45, 21


def read():
    with open(TABLE, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["mode"] != "-"]


def svg(rows):
    """Errors and cost outside of a panel stand at its edge."""
    names = list(dict.fromkeys((r["method"], r["mode"]) for r in rows))
    scenes = list(dict.fromkeys(r["scene"] for r in rows))
    width, bottom = LEFT + len(PANELS) * (WIDTH + GAP), TOP + STEP * len(names)
    text = lambda x, y, words, anchor="middle", color="black": \
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{html.escape(words)}</text>'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 24}" width="{width}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{bottom + 24}" fill="white"/>']
    for k, scene in enumerate(scenes):
        x = LEFT + 110 * k
        out += [f'<circle cx="{x}" cy="16" r="4" fill="{plot.COLORS[k]}"/>', text(x + 9, 20, scene, "start", plot.COLORS[k])]
    out += [text(LEFT - 10, TOP + STEP * (k + 0.7), " ".join(name), "end") for k, name in enumerate(names)]
    for p, (column, title, low, high) in enumerate(PANELS):
        left = LEFT + p * (WIDTH + GAP)
        at = lambda exponent: left + (min(max(exponent, low), high) - low) / (high - low) * WIDTH
        out.append(text(left + WIDTH / 2, TOP - 14, title))
        for e in range(low, high + 1):
            out.append(f'<path d="M{at(e):.1f} {TOP}V{bottom}" stroke="#ddd"/>')
            if high - low < 4 or (e - low) % 2 == 0:
                out.append(text(at(e), bottom + 16, f"{10.0 ** e:g}"))
        out += [f'<path d="M{left} {TOP + STEP * k}h{WIDTH}" stroke="#eee"/>' for k in range(len(names) + 1)]
        for r in rows:
            k, y = scenes.index(r["scene"]), TOP + STEP * (names.index((r["method"], r["mode"])) + 0.5)
            x = at(math.log10(max(float(r[column]), 1e-300)))
            out.append(f'<circle cx="{x:.1f}" cy="{y + 3 * (k - 2):.1f}" r="3.5" fill="{plot.COLORS[k]}" fill-opacity=".8"/>')
    return "\n".join(out + ["</svg>"])
