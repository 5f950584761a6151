"""Moving pictures of the site: pages of docs/gallery run, and the pages that they save are kept where figures play them.

A figure of a page is played where it shows docs/img/play/NAME.jpg and a page of the gallery saves NAME.html. Pages run side by side, in
processes of their own, and again only where something changed that they are made of.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GALLERY, POSTERS = ROOT / "docs" / "gallery", ROOT / "docs" / "img" / "play"
RUNNER = ROOT / "docs" / "site" / "snippets.py"
# Of each picture the moment, as a share of the frames, and the keys of the viewer that go to where it is seen from.
VIEWS = {
    "balance": (.03, "++"), "bar": (1, "+++"), "batch": (.5, "++++"), "bounce": (.1, "++++"), "carry": (.45, "ddd"), "drape": (1, "+++"),
    "follow": (.1, "++++"), "friction": (.6, "+++"), "hop": (.17, "+++"), "identify": (0, "dddd++"), "joystick": (.3, "++++"),
    "lift": (1, "ddd++"), "linkage": (.3, "++++"),
    "muscle": (.3, "dddd-"), "net": (.6, "++++"), "reach": (1, "+++++"), "stack": (.25, "+++++++"), "swim": (.5, "+++++++"), "terrain": (.7, "++++++"),
    "throw": (.3, "+++"), "walk": (.3, "++++"),
}
SAVED = re.compile(r"""\.save\("(\w+)\.html"\)|pb\.view\(\w+, "(\w+)\.html"\)""")


def saved(page):
    """Names of what a page saves."""
    return [a or b for a, b in SAVED.findall(page.read_text(encoding="utf-8"))]


def stamp(page, package):
    """Of what a page's scenes are made of: its text, how it is run, the package, the examples."""
    examples = (path for path in sorted((ROOT / "examples").rglob("*")) if path.is_file())
    files = [page, RUNNER, *sorted(package.rglob("*.so*")), *sorted(package.rglob("*.py")), *examples]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def make(page, folder, package):
    """Its scenes in folder, or what went wrong as a text."""
    mark, now = folder / f"{page.stem}.stamp", stamp(page, package)
    if mark.exists() and mark.read_text() == now and all((folder / f"{name}.html").exists() for name in saved(page)):
        return ""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, RUNNER, page], cwd=folder, env=environment, capture_output=True, text=True)
    missing = [name for name in saved(page) if not (folder / f"{name}.html").exists()]
    if done.returncode or missing:
        return f"docs/gallery/{page.name}: {', '.join(missing)}\n{done.stdout}{done.stderr}"
    mark.write_text(now)
    return ""


def build(folder, package, gallery=GALLERY, posters=POSTERS):
    """All scenes into folder; what is wrong: pages that fail, scenes without a poster, posters without a scene."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    pages = sorted(gallery.glob("*.md"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as at_once:
        wrong = [said for said in at_once.map(lambda page: make(page, folder, package), pages) if said]
    names, pictures = {name for page in pages for name in saved(page)}, {path.stem for path in posters.glob("*.jpg")}
    wrong += [f"docs/img/play/{name}.jpg is missing: docs/site/pictures.py {name}" for name in sorted(names - pictures)]
    return wrong + [f"no page of docs/gallery saves {name}.html, which docs/img/play/{name}.jpg shows" for name in sorted(pictures - names)]
