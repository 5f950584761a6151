"""The documentation site as `make docs` leaves it: no link is dead, nothing comes from a network, and mistakes turn the build red.

    make check-docs        builds it and runs this
"""
import html.parser
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SITE, PACKAGE = ROOT / "docs" / "site", pathlib.Path(os.environ.get("PULLBACK_BUILD", ROOT / "build" / "release")) / "python"
HTML, XML = ROOT / "build" / "docs" / "html", ROOT / "build" / "docs" / "xml"
sys.path[:0] = [str(SITE), str(ROOT / "tests" / "oracle"), str(PACKAGE)]
import build  # noqa: E402
import comments  # noqa: E402


class Page(html.parser.HTMLParser):
    """Names of places in a page, what it links to and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.loads += [found[name] for name in ("src", "href") if tag != "a" and found.get(name)]


@pytest.fixture(scope="module")
def pages():
    found = {path.resolve(): Page(path) for path in HTML.rglob("*.html")}
    assert len(found) > 50, "make docs"
    return found


def dead(pages, path, target):
    address, _, place = target.partition("#")
    to = (path.parent / address).resolve() if address else path
    return not to.exists() or bool(place and to in pages and place not in pages[to].places)


def test_links_lead_somewhere(pages):
    links = [(path, link) for path, page in pages.items() for link in page.links if not link.startswith(("http:", "https:", "mailto:"))]
    assert len(links) > 5000
    assert sorted({f"{path.relative_to(HTML)}: {link}" for path, link in links if dead(pages, path, link)}) == []


def test_nothing_is_loaded_from_elsewhere(pages):
    """Also what style sheets and scripts name, and what a browser asks for."""
    from browser import Browser
    loads = [(path, what) for path, page in pages.items() for what in page.loads if not what.startswith("data:")]
    assert loads and [f"{path.name}: {what}" for path, what in loads if "//" in what or dead(pages, path, what.split("?")[0])] == []
    assert [str(path) for path in HTML.rglob("*.css") if "url(http" in path.read_text() or "@import" in path.read_text()] == []
    browser = Browser(1000, 800)
    try:
        for name in ("index.html", "docs/guide/gallery.html", "api/python.html", "search.html"):
            browser.open(HTML / name)
            assert browser.errors() == [] and [u for u in browser.requests() if not u.startswith("file:")] == []
            assert browser.run("[...document.images].every(image => image.naturalWidth > 0)")
        browser.open(HTML / "search.html", query="?q=vjp")
        found = "new Promise(done => setTimeout(() => done(document.querySelectorAll('ul.search li').length), 200))"
        counts = (browser.run(found) for _ in range(50))
        assert any(count > 10 for count in counts) and browser.errors() == []
    finally:
        browser.close()


def test_every_public_name_is_there(pages):
    import pullback
    text = pages[(HTML / "api" / "python.html").resolve()].places
    assert [name for name in pullback.__all__ if f"pullback.{name}" not in text] == []
    for module in ("torch", "jax"):
        assert {f"pullback.{module}.rollout", f"pullback.{module}.step"} <= text
    headers = [path.stem for folder in build.HEADERS for path in folder.glob("*.h") if path.stem != "pullback"]
    missing = [name for name in headers if not (HTML / "api" / "c" / f"{name}.html").exists()]
    assert len(headers) > 20 and missing == []


# ---- mistakes ---------------------------------------------------------------------------------------------------------------
GOOD = {"source/index.md": "# Site\n\n```{toctree}\ndocs/python\napi\n```\n", "source/docs/python.md": "# Python\n\n## Here\n\n[there](#here)\n",
        "source/api.rst": "C and Python\n============\n\n.. py:currentmodule:: pullback\n\n.. autofunction:: planted.step\n",
        "planted.py": '"""Planted."""\n\n\ndef step(state):\n    """A step of docs/python.md. Raises KeyError."""\n'}
# What is planted, where, and what is said of it.
MISTAKES = {
    "a link to a page that is not there": ("source/docs/python.md", "[gone](gone.md)", "python.md:7: WARNING: 'myst' cross-reference target not found: 'gone.md'"),
    "a link to a heading that is not there": ("source/docs/python.md", "[gone](#nowhere)", "'nowhere'"),
    "a picture that is not there": ("source/docs/python.md", "![gone](gone.png)", "image file not readable: docs/gone.png"),
    "a page in no table of contents": ("source/docs/lost.md", "# Lost", "lost.md: WARNING: document isn't included in any toctree"),
    "a method that a docstring names": ("planted.py", "Model.rolout", "py:obj reference target not found: pullback.Model.rolout"),
    "an exception that a docstring names": ("planted.py", "SteppError", "py:exc reference target not found: pullback.SteppError"),
    "a page that a docstring names": ("planted.py", "docs/pithon.md", "unknown document: '/docs/pithon'"),
}


def built(folder, files):
    """A site of few pages, as build.py builds: what Sphinx says, and its exit status."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PULLBACK_PACKAGE": str(PACKAGE), "PULLBACK_XML": str(XML), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", "sphinx", *build.STRICT, "-b", "html", "-c", SITE, folder / "source", folder / "html"],
                          capture_output=True, text=True, cwd=folder, env=environment)
    return done.stderr, done.returncode


def test_mistakes_turn_the_build_red(tmp_path):
    said, code = built(tmp_path / "good", GOOD)
    assert code == 0 and "WARNING" not in said, said
    files = dict(GOOD)
    for where, text, _ in MISTAKES.values():
        files[where] = files[where].replace("Raises", f"{text}. Raises") if where == "planted.py" else files.get(where, "") + f"\n{text}\n"
    said, code = built(tmp_path / "bad", files)
    assert code != 0
    assert [name for name, (_, _, words) in MISTAKES.items() if words not in said] == [], said
    assert said.count("WARNING") == len(MISTAKES), said


def test_a_header_that_doxygen_does_not_understand_turns_the_build_red(tmp_path):
    for folder in build.HEADERS:
        (tmp_path / folder.relative_to(ROOT)).mkdir(parents=True)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "include" / "pullback" / "one.h").write_text("// One.\n\n// What `it` does <here>: @see \\ref # of 5 %.\nint pbOne(int n);  // a number\n")
    (tmp_path / "build" / "docs").mkdir(parents=True)
    run = lambda: subprocess.run(["doxygen", "docs/site/Doxyfile"], capture_output=True, text=True, cwd=tmp_path)
    assert run().returncode == 0
    said = (tmp_path / "build" / "docs" / "xml" / "one_8h.xml").read_text()
    assert "does &lt;here&gt;: @see \\ref # of 5 %." in said and "a number" in said
    (tmp_path / "include" / "pullback" / "one.h").write_text("/** @param m is not there */\nint pbOne(int n);\n")
    assert run().returncode != 0


# ---- comments of headers ------------------------------------------------------------------------------------------------------
HEADER = """// Pullback: one header.
#ifndef ONE_H
// ---- masses ----------
// In kg.

// What it weighs.
//   example();
int pbOne(void);
typedef struct pbTwo {  // two of them
  int a;  // first,
          // really
  int b;  // "// no" > 0
} pbTwo;
int pbThree(void);  // three
"""


def test_plain_comments_as_doxygen_reads_them():
    lines = comments.Filter(HEADER).text().splitlines()
    text = "\n".join(lines)
    assert lines[:3] == ["/** @file", "Pullback: one header.", "*/"]
    assert "/** @name Masses\nIn kg.\n*/\n/** @{ */" in text
    assert "/** What it weighs.\n@verbatim\n  example();\n@endverbatim\n*/\nint pbOne(void);" in text
    assert "/** two of them */\ntypedef struct pbTwo {\n  int a; /**< first,\nreally */\n  int b; /**< &quot;// no&quot; \\> 0 */" in text
    assert lines[-1] == "int pbThree(void); /**< three */"


def test_tables_are_written_out():
    text = '#define PB_T(X) \\\n  X(pb_a, 1, "one, or (two)") \\\n  X(pb_b, 2, "b")\nenum {\n#define X(name, n, text) name = n,\n  PB_T(X)\n#undef X\n};\n'
    assert comments.expanded(text).endswith("enum {\n  pb_a = 1,\npb_b = 2,\n};\n")


def test_headers_keep_their_comments():
    """Nearly all functions of the headers have a text of their own in what Doxygen made."""
    from xml.etree import ElementTree
    functions, said = 0, 0
    for path in XML.glob("*_8h.xml"):
        for member in ElementTree.parse(path).iterfind(".//memberdef[@kind='function']"):
            functions += 1
            said += bool("".join(member.find("detaileddescription").itertext()).strip())
    assert functions > 400 and said > .6 * functions, (functions, said)


# ---- snippets -----------------------------------------------------------------------------------------------------------------
def test_a_broken_snippet_turns_the_tests_red(tmp_path):
    """In a copy of a page, with the test as it is."""
    for name in ("tests/python/test_python_docs.py", "tests/python/conftest.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "guide" / "robots.md").read_text()

    def run(text):
        (tmp_path / "docs" / "guide" / "robots.md").write_text(text)
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/python/test_python_docs.py", "-k", "robots"], cwd=tmp_path,
                              capture_output=True, text=True, env={**os.environ, "PULLBACK_BUILD": str(PACKAGE.parent)})
    done = run(page)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    done = run(page.replace("pb.info(model)", "pb.infos(model)"))
    assert done.returncode == 1 and "robots.md" in done.stdout and "has no attribute 'infos'" in done.stdout, done.stdout
