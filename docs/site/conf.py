"""Sphinx's settings for the documentation site, which build.py builds: offline, every warning an error."""
import builtins
import html
import os
import pathlib
import re
import sys

from docutils import nodes

sys.path.insert(0, os.environ["PULLBACK_PACKAGE"])
import pullback

project, author = "Pullback", "The Pullback authors"
copyright = f"{author}, Apache-2.0"
release = version = pullback.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "breathe"]
exclude_patterns = ["bench", "cmake", "include", "lcp", "man", "src", "tests", "tools"]  # files that pages link to
nitpicky, highlight_language = True, "text"

html_theme, html_title = "furo", f"Pullback {release}"
html_static_path, html_css_files, html_js_files, smartquotes = ["static"], ["pages.css"], ["play.js"], False
html_show_sphinx = html_show_sourcelink = html_copy_source = html_show_search_summary = False

# Links to headings are those of a git host; what is no page is a file to look at.
myst_heading_anchors = 6

# ---- C: comments of the headers, through Doxygen ---------------------------------------------------------------------------
breathe_projects, breathe_default_project = {"pullback": os.environ["PULLBACK_XML"]}, "pullback"
breathe_domain_by_extension = {"h": "c"}
nitpick_ignore = [("c:identifier", name) for name in ("size_t", "int64_t", "uint64_t", "uint32_t", "uint8_t", "pbSpecPool", "va_list", "FILE")]

# ---- Python: docstrings, which are plain text ----------------------------------------------------------------------------------
autodoc_typehints, autodoc_member_order = "none", "bysource"
CLASSES = "Model|State|Rollout|Gradient|Tangent|Objective|Params|Parameter|Thing|Report|Check|Result|Seen|Energy|Elements|Simulator"
ROW = re.compile(r"^(\w+(?:, (?:\w+|\.\.\.))*)(?:  +)(\S.*)$")
# A name in a docstring is a reference, and one that is not there a warning: members of classes, exceptions, pages.
REFERENCES = re.compile(rf"(?<![\w.`])(?:pb\.)?(?P<member>(?:{CLASSES})\.[a-z]\w*)|(?<![\w.`])(?P<error>[A-Z]\w*Error)\b|docs/(?P<page>[\w/-]+)\.md")


def reference(found):
    if found["page"]:
        return f":doc:`/docs/{found['page']}`"
    if found["error"]:
        return f"``{found['error']}``" if hasattr(builtins, found["error"]) else f":py:exc:`{found['error']} <pullback.{found['error']}>`"
    return f":py:obj:`{found['member']} <pullback.{found['member']}>`"


def inline(text):
    """A line of plain text, in which nothing else is markup."""
    parts, at = [], 0
    for found in REFERENCES.finditer(text):
        parts += [plain(text[at:found.start()]), f"\\ {reference(found)}\\ "]
        at = found.end()
    return "".join(parts + [plain(text[at:])])


def plain(text):
    """What stands in backquotes is code; all else means itself, also at the beginning of a line."""
    parts = re.split(r"`([^`]+)`", text)
    parts[::2] = [re.sub(r"([\\*|`_]|::|(?<=\w)[.)](?= ))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"\\ ``{part.strip()}``\\ " if part.strip() else r"\`\`" for part in parts[1::2]]
    return re.sub(r"^(?=[^\w\s\\])", r"\\", "".join(parts))


def paragraph(lines):
    """A list of names with what they are, an example, or a text."""
    if all(line.startswith("    ") for line in lines):
        return [".. code-block:: python", "", *lines]
    if not ROW.match(lines[0]):
        return [inline(line.strip()) for line in lines]
    rows = []
    for line in lines:
        row = ROW.match(line)
        rows += [f"**{row[1]}**", f"   {inline(row[2])}"] if row else [f"   {inline(line.strip())}"]
    return rows


def as_rst(app, what, name, thing, options, lines):
    blocks = [block.split("\n") for block in re.split(r"\n\s*\n", "\n".join(lines)) if block.strip()]
    lines[:] = [line for block in blocks for line in [*paragraph(block), ""]]


def signature(app, what, name, thing, options, signature, returns):
    """None for what is not made by calling it."""
    return ("", None) if what == "class" and name.split(".")[-1] in ("Model", "State", "Rollout", "Gradient", "Tangent", "Params", "Parameter", "Thing",
                                                                       "Report", "Check", "Result", "Seen", "Elements") else None


def anchors(app, document):
    """Places that pages mark by <a id="..."> can be linked to, as headings can."""
    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for node in document.findall():
        for name in re.findall(r'<a id="([^"]+)">', node.astext()) if node.tagname == "raw" else ():
            slugs.setdefault(name, (node.line, name, ""))


def shorten(app, document):
    """Without the hundreds of names of a header beside every page."""
    if app.env.docname.startswith("api/c/"):
        for names in list(app.env.tocs[app.env.docname].findall(nodes.bullet_list))[1:]:
            if names.parent:
                names.parent.remove(names)


PLAYER = """<a class="player" href="{to}play/{name}.html" title="{text}: play"><img src="{to}play/{name}.jpg" alt="{text}"
width="640" height="400" loading="lazy"><span class="go" aria-hidden="true"></span></a>"""


def players(app, document):
    """Pictures of docs/img/play become links to what they show in motion, which play.js puts in their place."""
    for image in list(document.findall(nodes.image)):
        path = pathlib.PurePosixPath(image.get("uri", ""))
        if path.parent == pathlib.PurePosixPath("docs/img/play"):
            to = "../" * app.env.docname.count("/")
            image.replace_self(nodes.raw("", PLAYER.format(to=to, name=path.stem, text=html.escape(image.get("alt", ""))), format="html"))


def setup(app):
    app.connect("doctree-read", anchors)
    app.connect("doctree-read", players, priority=900)
    app.connect("doctree-read", shorten, priority=900)
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("autodoc-process-signature", signature)
