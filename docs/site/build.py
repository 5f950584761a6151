#!/usr/bin/env python3
"""The documentation site: pages of docs/ with the Python and C interfaces, into build/docs/html.   make docs

Without network; a warning of Doxygen or Sphinx is an error. Pages are read as they stand in the repository, so that links between
them, and from them to its files, are those of a git host.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import scenes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SITE, OUT = ROOT / "docs" / "site", ROOT / "build" / "docs"
SOURCE, SCENES = OUT / "source", ROOT / "build" / "scenes"
# Pages, and what they link to beside each other.
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/guide/*.md", "docs/gallery/*.md", "docs/img/*", "docs/img/play/*",
         "examples/*/*", "validation/report.md", "validation/img/*")
REPORT = pathlib.Path("validation", "report.md")  # pages link to it; it is no part of the table of contents, nor of what is searched
LINKED = ("bench", "cmake", "include", "lcp", "src", "tests", "tools", "man", "LICENSE",
          *(str(path.relative_to(ROOT)) for pattern in ("examples/*.*", "validation/*.py", "validation/*.csv") for path in ROOT.glob(pattern)))
HEADERS = (ROOT / "include" / "pullback", ROOT / "lcp" / "include" / "pullback")
STRICT = ("-W", "--keep-going", "-n", "-q")  # of Sphinx: a warning is an error, and so is a reference to nothing


def write(path, text):
    """Only where it changed: what is as it was need not be read again."""
    data = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def sections(page):
    """Headings of a page and the pages that each links to, in order."""
    for part in re.split(r"^## ", page, flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        yield title, [os.path.normpath(f"docs/{name}") for name in re.findall(r"\]\(([^)#:]+)\.md\)", text)]


def tree(names, caption=""):
    """A table of contents that is seen beside the pages alone."""
    return "\n```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "") + "\n" + "\n".join(names) + "\n```\n"


def laid_out(page):
    """Lists between <!-- NAME --> and <!-- end --> are boxes of that name, which the style sheet places; a git host shows them as lists."""
    return re.sub(r"^<!-- (\w+) -->\n(.*?)^<!-- end -->\n", r"```````{container} \1\n\2```````\n", page, flags=re.M | re.S)


def index():
    """The first page: docs/index.md, with the lists of docs/pages.md as tables of contents beside it."""
    listed = [(title, [name for name in names if name != str(REPORT.with_suffix(""))]) for title, names in sections((ROOT / "docs" / "pages.md").read_text())]
    page = laid_out((ROOT / "docs" / "index.md").read_text())
    moved = re.sub(r"\]\((?!#|\w+:)([^)]+)\)", lambda found: f"]({os.path.normpath('docs/' + found[1])})", page)
    trees = "".join(tree(names, title) for title, names in listed if names)
    return "---\nhide-toc: true\n---\n" + moved + tree(["docs/pages"]) + trees + tree(["api/python", "api/c"], "Interfaces")


def gallery(page):
    """The gallery, with its pages below it in the table of contents, in its own order."""
    return "---\nhide-toc: true\n---\n" + laid_out(page) + tree(dict.fromkeys(re.findall(r"\]\((\.\./gallery/\w+)\.md\)", page)))


def python(package):
    """The page of the Python interface, and at its end what is public and not on it."""
    page = (SITE / "python.rst").read_text()
    sys.path.insert(0, str(package))
    import pullback
    rest = [name for name in pullback.__all__ if not re.search(rf":: pullback\.{name}$", page, re.M)]
    kinds = {name: "class" if isinstance(getattr(pullback, name), type) else "function" for name in rest}
    lines = "".join(f".. auto{kinds[name]}:: pullback.{name}\n" for name in rest)
    return page + (f"\nFurther\n-------\n\n{lines}" if rest else "")


def headers():
    """A page for each public header, in the order of pullback.h, those of the library beside the engine last, and one that lists them."""
    names = re.findall(r"#include <pullback/(\w+)\.h>", (HEADERS[0] / "pullback.h").read_text())
    names += sorted({path.stem for path in HEADERS[0].glob("*.h")} - {*names, "pullback"})  # what these include
    names += sorted(path.stem for path in HEADERS[1].glob("*.h"))
    for name in names:
        title = f"{name}.h"
        write(SOURCE / "api" / "c" / f"{name}.rst", f".. _{name}_8h:\n\n{title}\n{'=' * len(title)}\n\n.. doxygenfile:: {title}\n")
    lines = "\n".join(f"   c/{name}" for name in names)
    write(SOURCE / "api" / "c.rst", f"{(SITE / 'c.rst').read_text()}\n.. toctree::\n   :maxdepth: 1\n\n{lines}\n")


def in_order():
    """Sections of each header as they stand in it, which is not how Doxygen writes them."""
    for path in (OUT / "xml").glob("*_8h.xml"):
        tree = ElementTree.parse(path)
        header = tree.find("compounddef")
        found = header.findall("sectiondef")
        if len(found) > 1:
            at = list(header).index(found[0])
            for section in found:
                header.remove(section)
            line = lambda section: min((int(place.get("line")) for place in section.iterfind("memberdef/location")), default=0)
            header[at:at] = sorted(found, key=line)
            tree.write(path, encoding="utf-8", xml_declaration=True)


def sources(package):
    """What Sphinx reads: copies, since links are resolved by where a page really is."""
    SOURCE.mkdir(parents=True, exist_ok=True)
    pages = {page.relative_to(ROOT) for pattern in PAGES for page in ROOT.glob(pattern) if page.is_file()} - {pathlib.Path("docs", "index.md")}
    for page in pages:
        text = (ROOT / page).read_bytes()
        if page.suffix == ".md":  # the first page of the site is that of the documents
            text = text.replace(b"](docs/index.md)", b"](index.md)")
        if page == pathlib.Path("docs", "guide", "gallery.md"):
            text = gallery(text.decode()).encode()
        if page == REPORT:
            text = b"---\norphan: true\nnosearch: true\n---\n" + text
        write(SOURCE / page, text)
    for old in {page.relative_to(SOURCE) for pattern in PAGES for page in SOURCE.glob(pattern) if page.is_file()} - pages:
        (SOURCE / old).unlink()
    for name in LINKED:
        if not (SOURCE / name).is_symlink():
            (SOURCE / name).parent.mkdir(exist_ok=True)
            (SOURCE / name).symlink_to(ROOT / name)
    write(SOURCE / "index.md", index())
    write(SOURCE / "api" / "python.rst", python(package))
    headers()


def forget():
    """All of it, where how pages are made has changed, or a header, whose unnamed enumerations Sphinx knows by number."""
    files = [path for path in sorted(SITE.rglob("*")) if path.is_file()] + [path for folder in HEADERS for path in sorted(folder.glob("*.h"))]
    made = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    if not (OUT / "stamp").exists() or (OUT / "stamp").read_text() != made:
        shutil.rmtree(OUT, ignore_errors=True)
    write(OUT / "stamp", made)


def play(wrong):
    """What figures play: pages that docs/gallery saves, with their posters, beside the site's own. wrong: what scenes.build says."""
    if wrong:
        sys.exit("docs: " + "\ndocs: ".join(wrong))
    for page in scenes.GALLERY.glob("*.md"):
        for name in scenes.saved(page):
            write(OUT / "html" / "play" / f"{name}.html", compact((SCENES / f"{name}.html").read_text(encoding="utf-8"), name))
            write(OUT / "html" / "play" / f"{name}.jpg", (scenes.POSTERS / f"{name}.jpg").read_bytes())


def compact(page, name):
    """In a figure (NAME.html#stage) a page is picture and bar alone, a little nearer, and goes on."""
    script = (SITE / "stage.js").read_text().replace("{{keys}}", scenes.VIEWS[name][1].replace("++", "+"))
    page, _, end = page.replace("</style>", f"{(SITE / 'stage.css').read_text()}</style>", 1).rpartition("</body>")
    return f"{page}<script>\n{script}</script>\n</body>{end}"


def run(*words, **environment):
    done = subprocess.run([str(w) for w in words], cwd=ROOT, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"docs: {words[0]} ended with {done.returncode}")


def pages(package):
    run(sys.executable, "-m", "sphinx", *STRICT, "-b", "html", "-c", SITE, "-d", OUT / "doctrees", SOURCE, OUT / "html",
        PULLBACK_PACKAGE=str(package), PULLBACK_XML=str(OUT / "xml"), PYTHONDONTWRITEBYTECODE="1", JAX_PLATFORMS="cpu")


def main():
    if not shutil.which("doxygen"):
        sys.exit("docs: doxygen is missing: make setup FOR=docs")
    forget()
    run("doxygen", SITE / "Doxyfile")
    in_order()
    package = pathlib.Path(os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release")) / "python"
    sources(package)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        made = beside.submit(scenes.build, SCENES, package)
        pages(package)
    play(made.result())
    print(f"docs: {OUT / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
