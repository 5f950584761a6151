#!/usr/bin/env python3
"""docs/img/*.png of the gallery, from what its own lines compute.   build/frameworks/bin/python docs/site/pictures.py

Pages are looked at in a browser without a screen, at a moment and from a place that are given here.
"""
import os
import pathlib
import re
import sys

import matplotlib
import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.chdir(ROOT)
sys.path[:0] = [str(ROOT / "build" / "release" / "python"), str(ROOT / "tests" / "oracle")]
matplotlib.use("Agg")
from browser import Browser  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402

IMAGES = ROOT / "docs" / "img"
WIDTH, HEIGHT = 720, 420


def computed():
    """What the snippets of the page leave behind."""
    names = {}
    page = (ROOT / "docs" / "guide" / "gallery.md").read_text()
    for code in re.findall(r"^```python fragment=\w+\n(.*?)^```", page, re.M | re.S):
        exec(compile(code, "gallery.md", "exec"), names)
    return names


def small(path, colours=96):
    """With few colours, as pictures in a repository should be."""
    image = Image.open(path).convert("RGB")
    image.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def look(browser, page, frame, name):
    browser.open(page)
    browser.run(f"pullback.go({frame}); new Promise(done => setTimeout(done, 800))")
    small(browser.shot(IMAGES / f"{name}.png"))


def plot(name, draw):
    figure, axes = plt.subplots(figsize=(WIDTH / 100, 3.4), dpi=100, layout="constrained")
    draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / f"{name}.png", metadata={"Software": None})
    plt.close(figure)
    small(IMAGES / f"{name}.png")


def influence(axes, found):
    names = found["hopper"].names("actuator")
    for k, values in enumerate(found["influence"].T):
        axes.plot(found["hop"].time[:-1], 1e3 * values, label=names[k] or f"actuator {k}")
    axes.axhline(0, color="gray", lw=.5)
    axes.set(xlabel="time [s]", ylabel="distance by set-point [mm/rad]")
    axes.legend(frameon=False)


def bounce(axes, found):
    drop = .5 + found["heights"]
    fall = np.sqrt(2 * drop / 9.81)
    axes.plot(drop, np.where(fall < .5, 1.8 * .5 / fall - 2.6, 1), color="black", lw=1, label="closed form")
    for how, mark in (("exact", "o"), ("event", "x")):
        axes.plot(drop, found["slopes"][how], mark, ms=4, label=f"gradient=\"{how}\"")
    axes.set(xlabel="height of the drop [m]", ylabel="d height after 0.5 s / d height")
    axes.legend(frameon=False)


def slide(axes, found):
    axes.plot(found["many"][:, 0, 0], found["distance"], "o-", ms=4)
    axes.set(xlabel="coefficient of friction", ylabel="distance after 1 s [m]")


def main():
    held = [open(os.devnull) for _ in range(4)]  # the browser's pipes take the numbers 3 and 4, which a font of matplotlib must not have
    found = computed()
    plot("influence", lambda axes: influence(axes, found))
    plot("bounce", lambda axes: bounce(axes, found))
    plot("slide", lambda axes: slide(axes, found))
    found["figure"].set_size_inches(WIDTH / 100, 5)
    found["figure"].savefig(IMAGES / "plot.png", dpi=100, metadata={"Software": None})
    small(IMAGES / "plot.png")
    browser = Browser(WIDTH, HEIGHT)
    try:
        look(browser, "/tmp/hop.html", 84, "hop")
        look(browser, "/tmp/cloth.html", 49, "cloth")
    finally:
        browser.close()
        [file.close() for file in held]


if __name__ == "__main__":
    main()
