"""The tools that read C sources: what they find in samples that are right and wrong."""
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import c_source  # noqa: E402
import check_named  # noqa: E402
import check_style  # noqa: E402
import measure_house  # noqa: E402

RIGHT = r'''// What it is.
#include <stdio.h>

#define TABLE(X) X(a), X(b)
static const int primes[] = {2, 3, 5};
typedef struct LANE(pbThing) {
  int a, b;
} LANE(pbThing);

// A comma, or a ?: in text: "a, b ? c : d ? e : f".
static num NUM(half)(const NUM(pbWork) *w, num x) { return x / 2; }

LANE(pbOut) LANE(pbThing_Run)(void *work,
                              int n) {
  const char *text = "x, y; { ( /* no comment */ // nor this", quote = '"', brace = '{';
  NUM(pbWork) *w = work, *other = NULL;
  pbInput input = {.ctrl = a ? b : c, .qfrc = d ? e : f};
  int (*call)(int, int) = NULL;

  // A loop may have two variables.
  for (int i = 0, k = n; i < k && !w->found; i++, k--) {
    call(i, k);
    find(w);
  }

#if PB_LANES == 1
  if (n) {
#else
  if (n > 1) {
#endif
    n = x ? 1 : 2, y;  /* the one fault of this function,
    that comment does not hide it */
  }
  switch (n) {
    case 1: return (pbOut){.a = 1, .b = 2};
    default: break;
  }
  return call((int[]){1, 2}, 3);
}
'''


def found(text, rule):
    """Texts of what a rule finds."""
    sums, places, _ = check_style.measure("sample.c", text)
    return sums[rule], [p.text for p in places[rule]]


def in_function(body):
    return "// A sample.\nvoid f(int n, bool flag, work *w) {\n" + body + "\n}\n"


def test_functions_are_found_behind_macros_of_names_and_with_branches_of_braces():
    source = c_source.Source(RIGHT)
    assert [(f.name, f.arguments) for f in source.functions] == [("half", 2), ("pbThing_Run", 2)]
    half, run = source.functions
    assert half.lines == 1 and run.lines == RIGHT.count("\n") - run.first + 1


def test_text_and_initializers_hold_no_commas_of_statements():
    assert found(RIGHT, "commas") == (1, ["n = x ? 1 : 2, y;  /* the one fault of this function,"])
    assert [found(RIGHT, rule)[0] for rule in ("nested", "if_loops", "no_opening", "long_lines", "many_arguments")] == [0] * 5


@pytest.mark.parametrize("body, count", [
    ("a = 1, b = 2;", 1), ("if (n) a = 1, b = 2;", 1), ("else a++, b++;", 1), ("if (a = f(), a) b = 1;", 1),
    ("return a = 1, b;", 1), ("for (;;) a = 1, b = 2;", 1), ("case 3: a = 1, b = 2; break;", 1), ("f(a), g(b);", 1), ("NUM(f)(a), b = 1;", 1),
    ("for (int i = 0, k = 1; i < n; i++, k++) f(i, k);", 0), ("int a = 1, b = 2;", 0), ("const double *a, **b;", 0), ("f(a, b);", 0),
    ("pbThing a = {1, 2}, *b = NULL;", 0), ("NUM(pbWork) a, b;", 0), ("x = (v3){1, 2, 3};", 0), ("return (pbThing){1, 2};", 0),
    ("a[f(1, 2)] = g(3, 4);", 0), ("FOR_EACH(i, n) { f(i, n); }", 0), ("struct {int a, b;} all[] = {{1, 2}, {3, 4}};", 0),
])
def test_comma_operators(body, count):
    assert found(in_function(body), "commas")[0] == count


@pytest.mark.parametrize("body, count", [
    ("x = a ? b : c ? d : e;", 1), ("x = a ? b ? c : d : e;", 1), ("x = a ? f(b ? 1 : 2) : 3;", 1), ("x = a ? (b ? 1 : 2) : 3;", 1),
    ("x = a ? b : c; y = d ? e : f;", 0), ("f(a ? b : c, d ? e : f);", 0), ("int x = a ? 1 : 2, y = b ? 3 : 4;", 0), ('puts("a ? b : c ? d : e");', 0),
    ("x = (a ? 1 : 2) + (b ? 3 : 4);", 0),
])
def test_nested_conditionals(body, count):
    assert found(in_function(body), "nested")[0] == count


@pytest.mark.parametrize("body, part", [
    ("for (int k = 0; flag && k < 4; k++) f(k);", "flag"),
    ("for (int i = 0; i < n && w->K; i++) w->K[i] = 0;", "w -> K"),
    ("for (int i = 0; K && i < n; i++) K[i] = 0;", "K"),
    ("for (int i = 0; w->list && i < n; i++) release(w->list[i]);", "w -> list"),
    ("for (int i = 0; w->kind == pb_kind && i < n; i++) total += a[i];", "w -> kind == pb_kind"),
    ("for (int i = 0; i < n && !flag; i++) flag = a[i] > 0;", None),
    ("for (int i = 0; status == pb_ok && i < n; i++) status = f(i);", None),
    ("for (int i = 0; i < n && !w->found; i++) look(w, i);", None),
    ("for (int i = 0; i < n && ask(w); i++) f(i);", None),
    ("for (int i = 0; i < n && a[i] > 0; i++) f(i);", None),
    ("for (int i = 0; i < n && flag; i++) read(&flag);", None),
    ("for (p = a; p && n > 0; p = p->next) n--;", None),
    ("for (int i = 0; i < n; i++) f(i);", None),
    ("for (int i = 0; i < n && step < MOST; i++) step += f(i);", None),
])
def test_loops_used_as_an_if(body, part):
    count, places = found(in_function(body), "if_loops")
    assert count == (part is not None)
    assert part is None or places[0].startswith(part + "   in ")


def test_lengths_arguments_and_opening_comments():
    long = in_function("\n".join(["n++;"] * 59))
    assert found(long, "long_functions") == (1, ["f: 61 lines"])
    assert found(in_function("\n".join(["n++;"] * 58)), "long_functions")[0] == 0
    assert found("void f(int a, int b, int c, int d, int e, int f, int g, int h, int (*i)(int, int)) {}\n", "many_arguments") == (1, ["f: 9 arguments"])
    assert found("#include <a.h>\n// late\n", "no_opening")[0] == 1
    assert found("#ifndef A_H\n#define A_H\n// What it is.\n#endif\n", "no_opening")[0] == 0
    assert found("// " + 128 * "x" + "\n", "long_lines")[0] == 1
    assert found("// x\n" * 701, "long_files")[0] == 1


def test_shares_of_blank_lines_and_comments_are_of_lines_between_the_braces():
    sums, places, _ = check_style.measure("s.c", in_function("int a = 1;\n\n// Why.\na++;  // and how\nPB_ASSERT(a);"))
    assert {k: sums[k] for k in ("body", "blank", "comment", "asserts")} == {"body": 5, "blank": 1, "comment": 2, "asserts": 1}
    assert not places["blank"]
    dense = in_function("\n".join(["n++;"] * 13))
    assert found(dense, "blank")[1] == ["f: 13 lines in one paragraph"]


def sums(**values):
    return dict(dict.fromkeys(check_style.SUMS, 0), lines=1000, body=500, blank=50, comment=25, **values)


def test_counts_may_only_fall_folder_by_folder_and_moves_are_told_by_totals():
    stored = {"src/a": sums(commas=3), "src/b": sums(commas=1)}
    assert check_style.compare({"src/a": sums(commas=2), "src/b": sums(commas=1)}, stored) == []
    worse = {"src/a": sums(commas=1), "src/b": sums(commas=2)}
    assert "src/b" in check_style.compare(worse, stored)[0]
    assert check_style.compare(worse, stored, moved=True) == []
    assert check_style.compare({"src/a": sums(commas=3), "src/c": sums(commas=1)}, stored) == []  # renamed
    assert check_style.compare({"src/a": sums(commas=3), "src/c": sums(commas=2)}, stored) != []
    assert check_style.compare({**stored, "src/c": sums(nested=1)}, stored) != []  # new


def test_shares_may_not_fall_and_what_is_stored_never_loosens():
    stored = {"src/a": sums()}
    less = sums()
    less["blank"] = 45
    assert "blank lines" in check_style.compare({"src/a": less}, stored)[0]
    less["blank"] = 49
    assert check_style.compare({"src/a": less}, stored) == []
    assert check_style.lowered({"src/a": less}, stored)["src/a"]["blank"] == 50


def test_a_quantity_is_stored_as_it_was_read(tmp_path):
    stored = {"src/a": sums(commas=3), "io": sums()}
    check_style.write_stored(stored, tmp_path / "counts.csv")
    assert check_style.read_stored(tmp_path / "counts.csv") == stored


def test_the_measures_of_a_sample(tmp_path):
    (tmp_path / "a.c").write_text(in_function("int abc = 1;\n\nabc++, n++;") + "#if A\n#endif\n")
    found = measure_house.measure([tmp_path])
    assert found["functions"] == 1 and found["lines of a function: longest"] == 5
    assert found["blank lines in bodies %"] == 33.3 and found["comma operators / 1000 lines"] == 125
    assert found["names of 1 or 2 letters %"] == 50 and found["characters a line of code"] == 11.5
    assert found["#if / 1000 lines without guards"] == 125


def test_sources_name_tests_that_are_there(tmp_path):
    assert check_named.faults()[1] == []
    assert check_named.named("// What.\n// Tests: tests/unit/test_a.c, tests/oracle/test_b.py.\n#include <a.h>\n// tests/unit/test_c.c\n") == [
        "tests/unit/test_a.c", "tests/oracle/test_b.py"]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text("// What.\n")
    (tmp_path / "src" / "b.c").write_text("// What. Tests: tests/unit/test_b.c.\n")
    subprocess.run("git init -q . && git add .", shell=True, cwd=tmp_path, check=True)
    said = check_named.faults(tmp_path)[1]
    assert len(said) == 2 and "a.c: its opening comment names no test" in said[0] and "there is no tests/unit/test_b.c" in said[1]


def test_all_that_is_drawn_by_seed_is_drawn_many_times():
    """Each test that reads SEED is in the table of tools/draw, or beside it with the reason."""
    draw = runpy.run_path(str(ROOT / "tools" / "draw"))
    table = " ".join(draw["TESTS"].values())
    read = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*") if p.suffix in (".py", ".c") and re.search(
        r"""(environ\.get|getenv)\(.SEED""", p.read_text(encoding="utf-8"))} - {"tests/oracle/test_tools.py"}
    missing = {p for p in read if p not in table and pathlib.Path(p).stem not in table and p not in draw["ELSEWHERE"]}
    assert len(read) > 12 and not missing, missing
    assert not [p for p in draw["ELSEWHERE"] if p not in read]
    seeds = draw["seeds"]
    assert seeds("a", 3) == seeds("a", 5)[:3] and len(set(seeds("a", 50))) == 50 and seeds("a", 1) != seeds("b", 1)


def test_a_changed_signature_shows_in_what_is_not_built(pullback):
    """Benchmarks and fuzz targets are read by the compiler in every build."""
    build = pathlib.Path(pullback).parent
    of = runpy.run_path(str(ROOT / "tools" / "check_unbuilt.py"))["commands"](build)
    assert {"bench/sparse.c", "tests/fuzz/fuzz_mjcf.c"} <= set(of)
    for name in ("bench/sparse.c", "tests/fuzz/fuzz_mjcf.c"):
        changed = [*of[name], "-DpbContext_Create(a)=pbContext_Create(a, 0)"]  # as after another argument
        codes = [subprocess.run(words, cwd=build, capture_output=True).returncode for words in (of[name], changed)]
        assert codes[0] == 0 and codes[1] != 0, name
