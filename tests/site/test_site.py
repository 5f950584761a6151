"""The documentation site as `make docs` leaves it: no link is dead, nothing comes from a network, it fits a phone and a desk, figures play, and
mistakes turn the build red.

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
import scenes  # noqa: E402
import snippets  # noqa: E402


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


# Pictures that cannot be shown, those included that are fetched when they come into sight.
BROKEN = ("Promise.all([...document.images].map(image => { image.loading = 'eager'; return image.decode().catch(() => image.src); }))"
          ".then(all => all.filter(Boolean))")


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
            assert browser.run(BROKEN) == []
        browser.open(HTML / "search.html", query="?q=vjp")
        found = "new Promise(done => setTimeout(() => done(document.querySelectorAll('ul.search li').length), 200))"
        counts = (browser.run(found) for _ in range(50))
        assert any(count > 10 for count in counts) and browser.errors() == []
    finally:
        browser.close()


# ---- as it is looked at -------------------------------------------------------------------------------------------------------
LOOKED_AT = ("index", "docs/pages", "docs/identify", "docs/stuck",
             *(f"docs/guide/{name}" for name in ("gallery", "install", "identify", "control", "train", "simulate")),
             *(f"docs/gallery/{path.stem}" for path in sorted(scenes.GALLERY.glob("*.md"))))
SAID = ("Runtime.consoleAPICalled", "Log.entryAdded", "Runtime.exceptionThrown")


def screen(browser, width, theme="light"):
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)


def said(browser):
    """All that the page and its frames have written to the console."""
    browser.run("1")
    return [event["params"] for event in browser.events if event.get("method") in SAID]


@pytest.mark.parametrize("width, theme", [(390, "dark"), (1440, "light")])
def test_pages_fit_and_are_silent(width, theme):
    """No page is wider than a phone or a desk, none says anything, pictures are there; boxes are one below the other on a phone."""
    from browser import Browser
    browser, wrong = Browser(width, 900), []
    try:
        screen(browser, width, theme)
        for name in LOOKED_AT:
            browser.open(HTML / f"{name}.html")
            wide = browser.run("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
            columns = browser.run("Math.max(0, ...[...document.querySelectorAll('.stage > ul, .doors > ul, .pictures > ul')].map("
                                  "list => new Set([...list.children].map(item => item.offsetLeft)).size))")
            broken = browser.run(BROKEN)
            dark = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 60")
            if wide > width or said(browser) or broken or dark != (theme == "dark") or (columns > 1 and width < 500) or (columns == 1 and width > 500):
                wrong.append((name, wide, columns, dark, broken, said(browser)))
        assert wrong == []
    finally:
        browser.close()


def frame_value(browser, code):
    """Of an expression in the frame of a page, whose scripts the page cannot reach."""
    made = [e["params"]["context"] for e in browser.events if e.get("method") == "Runtime.executionContextCreated"]
    main = browser.call("Page.getFrameTree")["frameTree"]
    frames = {child["frame"]["id"] for child in main.get("childFrames", [])}
    context = [c["id"] for c in made if c["auxData"]["frameId"] in frames and c["auxData"].get("isDefault")][-1]
    return browser.call("Runtime.evaluate", expression=code, contextId=context, returnByValue=True, awaitPromise=True)["result"].get("value")


def play(browser, k):
    """Click on the k-th figure that is left; which frames it shows within a while, and whether its panel is hidden."""
    place = browser.run(f"(() => {{ const figure = document.querySelectorAll('a.player')[{k}];"
                        "figure.scrollIntoView({block: 'center', behavior: 'instant'});"
                        "const box = figure.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()")
    browser.click(*place)
    assert browser.run("new Promise(done => setTimeout(() => done(document.querySelectorAll('.playing iframe').length), 100))") == 1
    for _ in range(100):  # until it is drawn
        browser.run("new Promise(done => setTimeout(done, 100))")
        try:
            if frame_value(browser, "Boolean(window.pullback)"):
                break
        except IndexError:
            pass
    seen = set()
    for _ in range(60):
        seen.add(frame_value(browser, "pullback.frame()"))
        if len(seen) > 2:
            break
        browser.run("new Promise(done => setTimeout(done, 100))")
    return seen, frame_value(browser, "getComputedStyle(document.getElementById('panel')).display") == "none"


@pytest.mark.parametrize("width", [390, 1440])
def test_figures_play_on_click(width):
    """In their place, without a network, silently: those of the first page."""
    from browser import Browser
    browser = Browser(width, 900)
    try:
        screen(browser, width)
        for k in range(3):
            browser.open(HTML / "index.html")
            assert browser.run("document.querySelectorAll('a.player').length") == 3
            before = browser.run("document.querySelectorAll('a.player')[%d].getBoundingClientRect().width" % k)
            seen, hidden = play(browser, k)
            assert len(seen) > 2 and hidden, (k, seen, hidden)
            assert browser.run("document.querySelector('.playing iframe').getBoundingClientRect().width") == pytest.approx(before, abs=1)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert said(browser) == [] and [u for u in browser.requests() if not u.startswith("file:")] == []
    finally:
        browser.close()


def test_every_scene_of_the_gallery_moves():
    """Each as it is opened by itself, where a figure's link leads without scripts."""
    from browser import Browser
    browser, wrong = Browser(320, 200), []
    try:
        for name in sorted(name for page in scenes.GALLERY.glob("*.md") for name in scenes.saved(page)):
            browser.open(HTML / "play" / f"{name}.html")
            moves = browser.run("(() => { const of = k => { pullback.go(k); return JSON.stringify([pullback.data.bodies.map((_, b) => pullback.pose(b)),"
                                "pullback.data.skin ? pullback.data.skin.points.length : 0, pullback.frame()]); };"
                                "return of(0) !== of(pullback.data.time.length - 1); })()")
            if not moves or said(browser):
                wrong.append((name, moves, said(browser)))
        assert wrong == [] and len(list(scenes.GALLERY.glob("*.md"))) >= 12
    finally:
        browser.close()


def test_pages_of_the_gallery_are_alike():
    """A picture that plays, few lines, what they print, what is differentiated, the command that does it again; all are in the gallery."""
    overview = (ROOT / "docs" / "guide" / "gallery.md").read_text()
    for path in scenes.GALLERY.glob("*.md"):
        text = path.read_text()
        code = [line for _, code, _ in snippets.snippets(text) if code for line in code.splitlines() if line.strip() and not line.startswith("import ")]
        (scene,) = scenes.saved(path)
        assert 5 <= len(code) <= 19 and "printed\n```" not in text, path.name
        has = [f"](../img/play/{scene}.jpg)", "```text fragment=printed", "**Differentiated:**", "**Again:**", "```sh fragment=page"]
        assert all(words in text for words in has), path.name
        assert f"](../img/play/{scene}.jpg)" in overview and f"](../gallery/{path.name})" in overview, path.name


def test_mistakes_in_the_gallery_are_told(tmp_path):
    """Code that fails, a number that is another one, a scene without a picture and a picture without a scene."""
    gallery, posters = tmp_path / "gallery", tmp_path / "play"
    gallery.mkdir()
    posters.mkdir()
    page = """# A\n\n```python fragment=package\nimport pullback as pb\nb = pb.load('examples/ball/ball.xml')\nr = b.rollout(b.init(), steps=5)
print(f'{r.time[-1]:.3f}')\nr.save("ball.html")\n```\n\n```text fragment=printed\n0.050\n```\n"""
    (gallery / "a.md").write_text(page)
    (posters / "ball.jpg").write_bytes(b"")
    assert scenes.build(tmp_path / "made", PACKAGE, gallery, posters) == [] and (tmp_path / "made" / "ball.html").exists()
    assert scenes.build(tmp_path / "made", PACKAGE, gallery, posters) == []  # as it was
    (gallery / "a.md").write_text(page.replace("0.050", "0.052"))
    (gallery / "b.md").write_text(page.replace("b.init()", "b.unit()").replace("ball.html", "other.html"))
    (posters / "lost.jpg").write_bytes(b"")
    wrong = "\n".join(scenes.build(tmp_path / "made", PACKAGE, gallery, posters))
    assert "a.md" in wrong and "the page says\n0.052" in wrong
    assert "b.md" in wrong and "has no 'unit'" in wrong and "b.md\", line 6" in wrong
    assert "other.jpg is missing" in wrong and "saves lost.html" in wrong


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
    for name in ("tests/python/test_python_docs.py", "tests/python/conftest.py", "docs/site/snippets.py"):
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
