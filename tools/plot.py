"""Line plots as SVG text."""
import html
import math

COLORS = ["#1f5fa8", "#c8501e", "#2d8a4e", "#7b4fa3", "#777777"]


def ticks(low, high, log):
    if log:
        exps = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [10.0**e for e in exps if low <= 10.0**e <= high and e % max(1, len(exps) // 6) == 0]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= 5 if (high - low) / step > 20 else 2 if (high - low) / step > 8 else 1
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def svg(title, xlabel, ylabel, curves, logx=False, logy=False, width=560, height=340):
    """curves: [(name, xs, ys, "line" or "dots")]"""
    left, right, top, bottom, label = 70, 15, 50, 45, 70  # label: where the next name stands, in a line above the curves
    keep = [(n, [(x, y) for x, y in zip(xs, ys) if (x > 0 or not logx) and (y > 0 or not logy)], kind) for n, xs, ys, kind in curves]
    every = [p for _, points, _ in keep for p in points]
    spans = []
    for axis, log in ((0, logx), (1, logy)):
        low, high = min(p[axis] for p in every), max(p[axis] for p in every)
        if high <= low:
            low, high = low - (0 if log else 1), high * 10 if log else high + 1
        margin = 0 if log or axis == 0 else 0.05 * (high - low)
        spans.append((low - margin, high + margin, log))

    def place(value, axis):
        low, high, log = spans[axis]
        part = math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)
        return left + part * (width - left - right) if axis == 0 else height - bottom - part * (height - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{width / 2}" y="18" text-anchor="middle" font-size="14">{html.escape(title)}</text>',
           f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{html.escape(xlabel)}</text>',
           f'<text x="14" y="{height / 2}" text-anchor="middle" transform="rotate(-90 14 {height / 2})">{html.escape(ylabel)}</text>']
    for value in ticks(*spans[0]):
        x = place(value, 0)
        out.append(f'<path d="M{x:.1f} {top}V{height - bottom}" stroke="#e4e4e4"/>'
                   f'<text x="{x:.1f}" y="{height - bottom + 16}" text-anchor="middle">{value:.6g}</text>')
    for value in ticks(*spans[1]):
        y = place(value, 1)
        out.append(f'<path d="M{left} {y:.1f}H{width - right}" stroke="#e4e4e4"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.6g}</text>')
    for k, (name, points, kind) in enumerate(keep):
        color = COLORS[k % len(COLORS)]
        at = [(place(x, 0), place(y, 1)) for x, y in points]
        if kind == "dots":
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="none" stroke="{color}"/>' for x, y in at]
        elif at:
            out.append(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in at)}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        mark = f'<circle cx="{label + 6}" cy="{top - 14}" r="2.4" fill="none" stroke="{color}"/>' if kind == "dots" else \
            f'<path d="M{label} {top - 14}h12" stroke="{color}" stroke-width="1.6"/>'
        out.append(f'{mark}<text x="{label + 17}" y="{top - 10}" fill="{color}">{html.escape(name)}</text>')
        label += 34 + 6.8 * len(name)
    return "\n".join(out + ["</svg>"])
