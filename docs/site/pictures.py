#!/usr/bin/env python3
"""docs/img/*.png and docs/img/play/*.jpg of the gallery, from what its own lines compute.

    build/frameworks/bin/python docs/site/pictures.py [NAME ...]      all, or the scenes of these names

Pages are looked at in a browser without a screen, at a moment and from a place that are given here.
"""
import os
import pathlib
import sys

import matplotlib
import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.chdir(ROOT)
PACKAGE = pathlib.Path(os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release")) / "python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests" / "oracle")]
matplotlib.use("Agg")
import scenes  # noqa: E402
import snippets  # noqa: E402
from browser import Browser  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402

IMAGES, SCENES = ROOT / "docs" / "img", ROOT / "build" / "scenes"
WIDTH, HEIGHT = 720, 420
POSTER = (640, 400)


def computed():
    """What the pages with plots leave behind."""
    os.chdir(SCENES)
    found = {name: value for page in ("hop", "bounce", "batch") for name, value in snippets.run(scenes.GALLERY / f"{page}.md").items()}
    os.chdir(ROOT)
    return found


def small(path, colours=96):
    """With few colours, as pictures in a repository should be."""
    image = Image.open(path).convert("RGB")
    image.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def look(browser, name):
    """The picture alone, of which the page is made that plays."""
    share, keys = scenes.VIEWS[name]
    browser.open(SCENES / f"{name}.html")
    browser.run("document.head.appendChild(document.createElement('style')).textContent = '#panel, #name, #bar { display: none !important; }'")
    for key in keys:
        browser.key(key)
    browser.run(f"pullback.go(Math.round({share} * (pullback.data.time.length - 1))); new Promise(done => setTimeout(done, 500))")
    shot = browser.shot(SCENES / f"{name}.png")
    Image.open(shot).convert("RGB").save(scenes.POSTERS / f"{name}.jpg", quality=84, optimize=True, progressive=True)


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


def figures():
    held = [open(os.devnull) for _ in range(4)]  # the browser's pipes take the numbers 3 and 4, which a font of matplotlib must not have
    found = computed()
    plot("influence", lambda axes: influence(axes, found))
    plot("bounce", lambda axes: bounce(axes, found))
    plot("slide", lambda axes: slide(axes, found))
    found["figure"].set_size_inches(WIDTH / 100, 5)
    found["figure"].savefig(IMAGES / "plot.png", dpi=100, metadata={"Software": None})
    small(IMAGES / "plot.png")
    for file in held:
        file.close()


def main():
    wrong = [said for said in scenes.build(SCENES, PACKAGE) if not said.startswith("docs/img")]
    if wrong:
        sys.exit("\n".join(wrong))
    if not sys.argv[1:]:
        figures()
    browser = Browser(*POSTER)
    browser.call("Emulation.setDeviceMetricsOverride", width=POSTER[0], height=POSTER[1], deviceScaleFactor=1, mobile=False)
    try:
        for name in sys.argv[1:] or scenes.VIEWS:
            look(browser, name)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
