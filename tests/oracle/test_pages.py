"""Pages of results (`--page`), read back in a browser without a screen: what they say, that names are text, that they fit a phone and a wide screen
in both themes."""
import json
import re
import shutil

import pytest

from browser import Browser

WIDTHS = (390, 1440)
MODEL = """<mujoco model="m"><option timestep="0.01"/><worldbody><geom name="floor &lt;img src=x&gt;" type="plane" size="5 5 1"/>
  <body name="b" pos="0 0 .3"><freejoint/><geom name="ball &lt;/script&gt;&lt;b&gt;" size=".1" solref=".3 1"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def browser():
    b = Browser(1440, 900)
    yield b
    b.close()


@pytest.fixture(scope="module")
def pages(run, root, tmp_path_factory):
    """Pages by kind, made as their commands make them; with quotes and blanks in a name."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("ball", "hopper"):
        shutil.copytree(root / "examples" / name, folder / name)
    (folder / "it's <b> & m.xml").write_text(MODEL)
    run("optimize", folder / "hopper" / "identify.json", "-q", "-o", folder / "found.json", "--page", folder / "optimize.html")
    run("audit", folder / "ball" / "launch.json", "-q", "--page", folder / "audit.html")
    run("check", folder / "it's <b> & m.xml", "-q", "--horizon", "30", "--page", folder / "check.html")
    return folder


def look(browser, page, width, dark):
    """Opened at a width in a theme, without a word on the console, a request or a bar below."""
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.open(page)
    assert browser.errors() == [] and browser.requests() == []
    assert not [e for e in browser.events if e.get("method") in ("Runtime.consoleAPICalled", "Log.entryAdded")]
    assert browser.run("document.documentElement.scrollWidth") == width
    return browser


def text(browser, of="main"):
    return re.sub(r"\s+", " ", browser.run(f"document.querySelector('{of}').innerText"))


def rows(browser, table=0):
    return browser.run(f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText))")


# luminance of the text and of what is behind it, by WCAG 2
CONTRAST = """(() => {
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
  const back = n => getComputedStyle(n).backgroundColor;
  const behind = n => { while (/rgba\\(.*, 0\\)|transparent/.test(back(n))) n = n.parentElement; return back(n); };
  let least = 99, where = '';
  for (const n of document.querySelectorAll('main *')) {
    if (![...n.childNodes].some(c => c.nodeType === 3 && c.textContent.trim()) || !n.getClientRects().length) continue;
    const s = getComputedStyle(n), a = light(n instanceof SVGElement ? s.fill : s.color), b = light(behind(n));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least) { least = ratio; where = n.textContent; }
  }
  return [least, where];
})()"""


@pytest.mark.parametrize("dark", (False, True))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ("optimize", "audit", "check"))
def test_pages_fit_and_are_legible(browser, pages, kind, width, dark):
    look(browser, pages / f"{kind}.html", width, dark)
    least, where = browser.run(CONTRAST)
    assert least >= 4.5, (least, where)
    lefts = browser.run("[...document.querySelectorAll('.card:not(.wide)')].map(c => c.getBoundingClientRect().left)")
    assert (max(lefts) > min(lefts) + 400) == (width > 860)  # two columns, or one
    assert browser.run("[...document.querySelectorAll('.card')].every(c => c.getBoundingClientRect().right <= innerWidth)")
    assert browser.run("[...document.querySelectorAll('.scroll')].every(s => s.scrollWidth <= s.clientWidth)")  # nothing is cut off
    backs = browser.run("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
    assert (sum(map(int, backs)) < 300) == dark


def test_a_search(browser, pages):
    look(browser, pages / "optimize.html", 1440, False)
    found, said = json.loads((pages / "found.json").read_text()), text(browser)
    assert "Converged" in said and "The gradient is zero to within its tolerance." in said
    for variable, row in zip(found["variables"], rows(browser)):
        start, value = variable["start"][0], variable["value"][0]
        told, sure = row[2].split("\n\u00b1 ")
        assert row[0] == variable["name"] and float(row[1]) == pytest.approx(start, rel=1e-4) and float(told) == pytest.approx(value, rel=1e-4)
        assert float(sure) == pytest.approx(variable["deviation"][0], rel=.06)
        assert [float(x) for x in row[3].split(" to ")] == pytest.approx(variable["interval"][0], rel=1e-3)
        assert row[4] == f"{variable['lower'][0]:g} to {variable['upper'][0]:g}"
    assert "agrees with differences of the simulation" in said

    # the loss from the start to the end, on an axis of powers of ten, with what both axes say
    points = browser.run("document.querySelector('svg.chart .curve').getAttribute('d').split('L').length")
    assert points == len(found["history"]) + 1
    drawn = browser.run("document.querySelector('svg.chart').textContent")
    assert "least loss so far" in drawn and "iteration" in drawn and "10\u207b\u2074" in drawn
    command = browser.run("document.querySelector('pre.command').textContent")
    assert command == f"pullback optimize {pages}/hopper/identify.json -q -o {pages}/found.json --page {pages}/optimize.html"


def test_an_audit(browser, pages, run):
    look(browser, pages / "audit.html", 1440, False)
    report = json.loads(run("audit", pages / "ball" / "launch.json", "-q", "--json").stdout)
    said, table, ledger = text(browser), rows(browser), rows(browser, 1)
    assert "Confirmed" in said and len(table) == len(report["runs"])
    for row, found in zip(table, report["runs"]):
        assert row[0].split("\n")[0] == found["name"]
        assert ("holds" in row[1]) == (found["counts"] and found["ran"] > 0)
        if not found["ran"]:
            assert found["why"] in row[1]
    kept = [r for r in report["runs"] if r.get("ledger")]
    assert [r[0] for r in ledger] == [r["name"] for r in kept]
    assert [float(r[3]) for r in ledger] == pytest.approx([r["ledger"]["taken"] for r in kept], rel=1e-3)


def test_an_audit_that_does_not_confirm(browser, pages, run):
    """A start whose ball falls further than its limit for overlaps: the row that is to blame says so, the verdict names it."""
    task = json.loads((pages / "ball" / "launch.json").read_text())
    task["audit"] = {**task.get("audit", {}), "penetration": 0.001}
    (pages / "ball" / "hard.json").write_text(json.dumps(task))
    run("audit", pages / "ball" / "hard.json", "-q", "--page", pages / "hard.html", code=1)
    look(browser, pages / "hard.html", 1440, False)
    assert "Not confirmed" in text(browser) and "Penetration of" in text(browser, "header")
    counted = [r for r in rows(browser) if "reported" not in r[1] and "not run" not in r[1]]
    assert len(counted) == 4 and all("does not hold" in r[1] for r in counted)
    assert browser.run("document.querySelectorAll('td.bad .ratio.bad').length") >= 4


def test_a_check_and_its_names(browser, pages, run):
    name = pages / "it's <b> & m.xml"
    look(browser, pages / "check.html", 1440, False)
    report, said = json.loads(run("check", name, "-q", "--horizon", "30", "--json").stdout), text(browser)
    assert f"All {len(report['checks'])} checks hold" in said
    assert sorted(r[0] for r in rows(browser)) == sorted(c["name"] for c in report["checks"])
    assert browser.run("document.querySelector('h1').textContent") == browser.run("document.title") == name.name
    for finding in report["findings"]:
        assert finding["where"] in said
    assert "floor <img src=x>" in said and "ball </script><b>" in said  # named, as text
    assert browser.run("[document.querySelectorAll('main img, main b').length, document.scripts.length]") == [0, 3]
    quoted = f"{pages}/it'\\''s <b> & m.xml"
    assert browser.run("document.querySelector('pre.command').textContent") == f"pullback check '{quoted}' -q --horizon 30 --page {pages}/check.html"


def test_the_name_of_a_page_is_looked_at_first(run, pages):
    hopper = pages / "hopper" / "identify.json"
    assert "'optimize' writes .html files there" in run("optimize", hopper, "--page", "x.json", code=2).stderr
    shutil.copy(hopper, pages / "hopper" / "identify.html")
    same = run("optimize", pages / "hopper" / "identify.html", "--page", pages / "hopper" / "identify.html", code=2)
    assert "this file is what the command reads" in same.stderr
    refused = run("audit", pages / "ball" / "launch.json", "--page", pages / "none" / "x.html", code=5)
    assert "none" in refused.stderr and "mean" not in refused.stdout
    assert "'simulate' takes no option --page" in run("simulate", pages / "hopper" / "hopper.xml", "--page", "x.html", code=2).stderr
