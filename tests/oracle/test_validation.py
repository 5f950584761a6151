"""validation/run.py: an interrupted run goes on, what failed or changed is measured again, times do not fail the quick run."""
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import inside

COMMON = 'from collections import namedtuple\nRow = namedtuple("Row", "quantity measured required holds time")\n' \
    'row, timing = (lambda *a, t=t: Row(*a, t) for t in (False, True))\n'
A = '"""A case\n\nA thing that holds. More of it."""\nfrom common import row, timing\n\ndef rows():\n    open("measured", "a").write("A")\n' \
    '    return [row("a", 1, "1", True), timing("speed", 9, "<= 8", {fast})]\n'
B = '"""Another case\n\nAnother."""\nimport os\nfrom common import row\n\ndef rows():\n    open("measured", "a").write("B")\n' \
    '    if os.path.exists("die"):\n        os._exit(9)\n    return [row("b", 2, "2", not os.path.exists("wrong"))]\n'


@pytest.fixture
def project(tmp_path):
    """A project with two cases, and run(*words) -> (exit code, output, cases measured)."""
    (tmp_path / "validation").mkdir()
    for folder in ("src", "build"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "a.c").write_text("int a;\n")
    for name in ("run.py", "provenance.py"):
        shutil.copy(os.path.join(inside.ROOT, "validation", name), tmp_path / "validation")
    (tmp_path / "validation" / "common.py").write_text(COMMON)
    (tmp_path / "validation" / "A1.py").write_text(A.format(fast=True))
    (tmp_path / "validation" / "B1.py").write_text(B)

    def run(*words):
        (tmp_path / "measured").write_text("")
        done = subprocess.run([sys.executable, str(tmp_path / "validation" / "run.py"), *words], capture_output=True, text=True, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr, (tmp_path / "measured").read_text()
    return tmp_path, run


def test_whole_run(project):
    path, run = project
    code, text, measured = run()
    assert (code, measured) == (0, "AB"), text
    with open(path / "validation" / "results.csv", newline="") as f:
        assert [r[:2] for r in csv.reader(f)] == [["case", "quantity"], ["A1", "a"], ["A1", "speed"], ["B1", "b"]]
    page = (path / "validation" / "report.md").read_text()
    assert "| A1 | [A case](#a1-a-case) | A thing that holds. | 2 |" in page and "## B1: Another case\n\nAnother.\n" in page
    assert run("--list") == (0, "A1     A case\nB1     Another case\n", "")
    assert run()[2] == "AB"  # a new run, everything anew


def test_goes_on_after_a_kill(project):
    path, run = project
    (path / "die").write_text("")
    assert run()[::2] == (9, "AB")
    assert run()[2] == "B"  # killed again: A1 is kept
    (path / "die").unlink()
    (path / "src" / "a.c").write_text("long a;\n")  # other sources: nothing counts
    (path / "wrong").write_text("")
    code, text, measured = run()
    assert (code, measured) == (1, "AB") and "1 do not hold" in text
    (path / "wrong").unlink()
    assert run()[::2] == (0, "AB")


def test_the_package_counts_for_cases_that_import_it(project):
    path, run = project
    (path / "python").mkdir()
    (path / "pullback.py").write_text("")
    (path / "python" / "model.py").write_text("a = 1\n")
    case = path / "validation" / "A1.py"
    case.write_text(case.read_text() + "\nimport pullback\n")
    (path / "die").write_text("")
    environment = dict(os.environ, PYTHONPATH=str(path))
    run_here = lambda: subprocess.run([sys.executable, str(path / "validation" / "run.py")], capture_output=True, cwd=path, env=environment)
    measured = lambda: (run_here(), (path / "measured").read_text())[1]
    (path / "measured").write_text("")
    assert measured() == "AB" and measured() == "ABB"
    (path / "python" / "model.py").write_text("a = 2\n")
    assert measured() == "ABBAB"


def test_quick_run(project):
    path, run = project
    assert run("--quick")[0] == 1  # never measured
    run()
    before = (path / "validation" / "results.csv").read_text()
    assert {run("--quick", "--seed", str(k))[2] for k in range(8)} == {"AB", "BA"}
    (path / "validation" / "A1.py").write_text(A.format(fast=False))
    code, text, _ = run("--quick")
    assert code == 0 and "too slow here (reported): speed" in text
    (path / "wrong").write_text("")
    code, text, _ = run("--quick")
    assert code == 1 and "does not hold: b" in text
    assert (path / "validation" / "results.csv").read_text() == before
    cases = (path / "validation" / "cases.csv").read_text().replace("B1,0.", "B1,90.")
    (path / "validation" / "cases.csv").write_text(cases)
    assert run("--quick")[::2] == (0, "A")
    (path / "validation" / "B1.py").write_text(B + "\n")
    assert "other sources than these: B1" in run("--quick")[1]


def test_a_case_that_fails_is_a_row(project):
    path, run = project
    (path / "validation" / "A1.py").write_text('"""A case"""\n\ndef rows():\n    raise ValueError("no")\n')
    code, text, _ = run("--case", "A1")
    assert code == 1 and "measured at all: ValueError: no" in text


def test_a_case_that_appears_is_one_of_the_next_run(project):
    path, run = project
    (path / "validation" / "A1.py").write_text(A.format(fast=True).replace("def rows():", "def rows():\n    open('validation/A2.py', 'w').write(open('validation/B1.py').read())"))
    assert run()[::2] == (0, "AB")
    assert run()[::2] == (0, "ABB")


def test_every_case_has_a_title_and_the_page_is_of_these_results(tmp_path):
    """validation/report.md is what --document writes now: titles, rows and seconds."""
    names = [f[:-3] for f in os.listdir(os.path.join(inside.ROOT, "validation")) if f[0].isupper() and f.endswith(".py")]
    for name in names:
        with open(os.path.join(inside.ROOT, "validation", name + ".py"), encoding="utf-8") as f:
            first, blank = f.readline().rstrip("\n"), f.readline()
        assert 8 < len(first) < 75 and not first.endswith((".", '"')) and blank == "\n", f"{name}: no title"
    shutil.copytree(os.path.join(inside.ROOT, "validation"), tmp_path / "validation", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, str(tmp_path / "validation" / "run.py"), "--document"], check=True)
    with open(os.path.join(inside.ROOT, "validation", "report.md"), encoding="utf-8") as f:
        assert f.read() == (tmp_path / "validation" / "report.md").read_text(encoding="utf-8"), "validation/run.py --document"


def in_git(path):
    """All of it, committed."""
    who = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    git = lambda *words: subprocess.run([*who, *words], cwd=path, check=True, capture_output=True, text=True).stdout
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all")
    return git


def shorter(path, share=2):
    """Shares of some seconds."""
    program = path / "validation" / "run.py"
    text = program.read_text()
    text, count = re.subn(r"\nSHARE, PARTS, DRAWN = \d+, \d+, \d+", f"\nSHARE, PARTS, DRAWN = {share}, 2, 20", text)
    assert count == 1
    program.write_text(text)


LONG = '"""A long one\n\nIt goes on."""\nimport os, time\nfrom common import row\nGOES_ON = True\n\ndef rows():\n    open("measured", "a").write("C")\n' \
    '    while os.path.getsize("done") < 30 if os.path.exists("done") else True:\n        open("done", "a").write("x")\n        time.sleep(0.15)\n' \
    '    return [row("c", 3, "3", True)]\n'


def test_parts(project):
    """Parts together are all cases; a long one gets shares in several of them, goes on and is written with its last."""
    path, run = project
    shorter(path, 3)
    in_git(path)
    assert sorted("".join(run("--part", f"{k}/2")[2] for k in (1, 2))) == ["A", "B"]
    (path / "validation" / "C1.py").write_text(LONG.replace("0.15", "0.25"))
    cases = path / "validation" / "cases.csv"
    cases.write_text(cases.read_text() + "C1,8.5,x,,\n")
    in_git(path)
    results = lambda: (path / "validation" / "results.csv").read_text()
    said = [run("--part", f"{k}/3") for k in (1, 2, 3)]
    assert "".join(sorted("".join(s[2] for s in said))) == "ABCCC" and "C1,c,3" in results(), said
    assert "its share of 3 s is over" in said[0][1] + said[1][1] and (path / "done").stat().st_size == 30
    row = next(r for r in csv.DictReader(cases.read_text().splitlines()) if r["case"] == "C1")
    assert row["processor"] and set(row) == {"case", "seconds", "hash", "commit", "processor"}
    for bad in ("0/3", "4/3", "x", "1/"):
        assert run("--part", bad)[0] == 1


PROGRAM = '"""A case with a program\n\nIt goes on."""\nimport subprocess, sys\nfrom common import row\nGOES_ON = True\n\n' \
    'def rows():\n' \
    '    subprocess.run([sys.executable, "program.py"], check=True)\n    return [row("d", 4, "4", True)]\n'
STEPS = '"""Writes letters, and keeps how far it is when it is asked to end."""\nimport os, signal, time\n' \
    'done = int(open("at").read()) if os.path.exists("at") else 0\nopen("pid", "w").write(str(os.getpid()))\n' \
    'def keep(*_):\n    open("at", "w").write(str(done))\n    raise SystemExit(3)\n' \
    'signal.signal(signal.SIGTERM, keep)\nwhile done < 40:\n    time.sleep(0.1)\n    done += 1\n' \
    '    open("letters", "a").write("x")\nopen("at", "w").write("40")\n'


def test_a_share_that_ends_ends_its_programs(project):
    """At the deadline and by SIGTERM: the program keeps its state, none is left, and the next share goes on with it."""
    path, run = project
    shorter(path)
    run()
    (path / "validation" / "D1.py").write_text(PROGRAM)
    (path / "program.py").write_text(STEPS)
    cases = path / "validation" / "cases.csv"
    cases.write_text(cases.read_text() + "D1,2.0,x,,\n")
    in_git(path)
    lives = lambda: os.path.exists(f"/proc/{(path / 'pid').read_text()}")
    for _ in range(5):  # the deadline; on a machine that is at work it may come before the program
        assert "its share of 2 s is over" in run("--part", "1/1")[1]
        if (path / "pid").exists():
            break
    assert not lives()
    first = int((path / "at").read_text())
    assert 1 <= first < 25

    shorter(path, share=60)  # the signal comes first on any machine
    cases.write_text(cases.read_text().replace("D1,2.0,", "D1,200.0,"))  # and it stays a long one
    rng = random.Random(os.environ.get("SEED", "0"))
    letters = path / "letters"
    wanted = letters.stat().st_size + 1 + rng.randrange(10)
    program = str(path / "validation" / "run.py")
    p = subprocess.Popen([sys.executable, program, "--part", "1/1"], cwd=path, stdout=subprocess.DEVNULL)
    while letters.stat().st_size < wanted:
        time.sleep(0.01)
    p.terminate()
    assert p.wait(30) == 128 + signal.SIGTERM and not lives()
    second = int((path / "at").read_text())
    assert second > first
    run("--part", "1/1")
    assert len(letters.read_text()) == 40 and "D1,d,4" in (path / "validation" / "results.csv").read_text()
    shares = json.loads((path / "build" / "validation.shares.json").read_text())
    assert "D1" not in shares


def test_a_drawn_part_writes_nothing(project):
    path, run = project
    shorter(path)
    run()
    before = {f.name: f.read_bytes() for f in (path / "validation").iterdir() if f.is_file()}
    (path / "validation" / "A1.py").write_text(A.format(fast=False))
    said = {run("--part", "draw", "--seed", str(k))[::2] for k in range(12)}
    assert said == {(0, "A"), (0, "B")}  # a row about time is told
    before.pop("A1.py")
    assert all((path / "validation" / name).read_bytes() == content for name, content in before.items())
    (path / "wrong").write_text("")
    assert {run("--part", "draw", "--seed", str(k))[0] for k in range(12)} == {0, 1}


def test_what_is_older_than_its_files_is_stale(project):
    path, run = project
    git = in_git(path)
    run()
    commit = git("rev-parse", "--short=9", "HEAD").strip()
    row = next(csv.DictReader((path / "validation" / "cases.csv").read_text().splitlines()))
    assert row["commit"].rstrip("+") == commit and run("--stale")[1].strip() == ""
    assert f"| {row['commit']} | {row['processor']} |" in (path / "validation" / "report.md").read_text()
    (path / "validation" / "B1.py").write_text(B + "# more\n")
    git("commit", "-qam", "two")
    assert run("--stale")[1].strip() == f"B1 is stale: measured on {row['commit']}, changed since: validation/B1.py"


def test_a_share_without_anything_kept_gets_more_time(project):
    """One step of a case that takes longer than a share, on a machine that is at work, would never be made."""
    path, run = project
    shorter(path)
    run()
    slow = LONG.replace('os.path.getsize("done") < 30 if os.path.exists("done") else True', '"C" != "C"').replace(
        '    return', '    time.sleep(3)\n    return')
    (path / "validation" / "C1.py").write_text(slow)
    cases = path / "validation" / "cases.csv"
    cases.write_text(cases.read_text() + "C1,2.0,x,,\n")
    in_git(path)
    assert "its share of 2 s is over" in run("--part", "1/1")[1]  # it keeps nothing anywhere
    (path / "build" / "C1.state").write_text("")
    os.utime(path / "build" / "C1.state", (1, 1))
    assert "is over" not in run("--part", "1/1")[1] and "C1,c,3" in (path / "validation" / "results.csv").read_text()
