"""The index page of make demo: one file with the pictures of all parts in it, drawn by the viewer that the program's own pages have.

write(path, parts, version, rest): parts are dicts with name, title, caption, text, columns, rows (the last entry of each: whether it holds, or None),
charts, commands; with "page", a file that `pullback view` wrote, and "poster" (io/view/view.js), there is a picture that plays.
"""
import html
import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY = re.compile(r'<script id="library">.*?</script>', re.S)
LEAD = ("Robots, rubber and a throw, simulated and differentiated by one program. Parameters, starts and paths were found, and policies were learnt, "
        "by exact gradients through every contact. Click a picture to let it move, drag to look at it from elsewhere.")


def text(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as f:
        return f.read()


def picture(page):
    """(before, library, after) of a page: all of them have the same library."""
    whole = text(page)
    library = LIBRARY.search(whole)
    return whole[:library.start()], library.group(), whole[library.end():]


def told(value):
    """JSON for a script element: nothing in it ends that."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def write(path, parts, version, rest=""):
    library, shown = "", []
    for part in parts:
        part = dict(part, viewer=os.path.basename(part["page"]) if part.get("page") else "")
        if part.get("page"):
            before, library, after = picture(part["page"])
            part["page"] = [before, after]
        shown.append(part)
    data = told({"kind": "demo", "version": version, "lead": LEAD, "rest": rest, "parts": shown, "library": library})
    parts_of_page = {"title": html.escape("Pullback: found by gradient, through contact"), "style": text("io", "view", "page.css"),
                     "report_style": text("io", "view", "report.css") + text("tools", "demo_page.css"), "charts": text("io", "view", "charts.js"),
                     "script": text("io", "view", "report.js") + "</script>\n<script>\n" + text("tools", "demo_page.js"), "data": data}
    page = re.sub(r"\{\{(\w+)\}\}", lambda mark: parts_of_page.get(mark[1], mark[0]), text("io", "view", "report.html"))
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(page)
    os.replace(path + ".part", path)  # a browser that looks while the demo runs sees a whole page
