#!/usr/bin/env python3
"""Counts what makes a function hard to read, and fails where a folder has more of it than tools/style_counts.csv says.

  tools/check_style.py                    each rule with its count, its goal and what is stored; fails where a folder got worse
  tools/check_style.py --worst 10         and the worst places of each rule
  tools/check_style.py --folder src/solve only this folder
  tools/check_style.py --store            stores what is better than before; what is worse is refused
  tools/check_style.py --store --moved    the same after code went from one folder to another: only the totals must not be worse
  tools/check_style.py --goals            fails, too, where a goal is missed

Counts may only fall. Shares (blank lines, comments, assertions) may only rise, but for a little that a small change makes.
"""
import argparse
import csv
import dataclasses
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import c_source  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORED = ROOT / "tools" / "style_counts.csv"
TOPS = ("src", "lcp", "io", "cli", "include", "tests", "python", "bench", "examples")
PYTHON_TOPS = ("tests", "python", "tools", "validation", "bench", "examples", "docs")  # lines alone
GOAL_TOPS = ("src", "lcp", "io", "cli")  # the goals are about these together
MOST_LINES, MOST_FILE, MOST_ARGUMENTS, MOST_COLUMNS, MOST_PYTHON_COLUMNS = 60, 700, 8, 130, 160

# name: what it counts, and the goal over all: a count, or a number per 1000 lines
COUNTS = {
    "commas": ("statements joined by the comma operator", "< 0.5 per 1000 lines"),
    "nested": ("conditional expressions inside others", "0"),
    "if_loops": ("loops used as an if: a part of the condition that never changes", "0"),
    "long_functions": (f"functions beyond {MOST_LINES} lines", "0"),
    "long_files": (f"files beyond {MOST_FILE} lines", "0"),
    "no_opening": ("files without an opening comment", "0"),
    "many_arguments": (f"functions with more than {MOST_ARGUMENTS} arguments", "0"),
    "long_lines": (f"lines beyond {MOST_COLUMNS} columns", "0"),
}
# name: part, whole, what it is, unit, factor, goal, what it may lose without complaint
SHARES = {
    "blank": ("blank", "body", "blank lines inside functions", "%", 100, 8, 0.3),
    "comment": ("comment", "body", "lines with a comment inside functions", "%", 100, 5, 0.3),
    "assertions": ("asserts", "lines", "assertions", "per 1000 lines", 1000, None, 0.3),
}
SUMS = ["lines", "body", "blank", "comment", "asserts", *COUNTS]


@dataclasses.dataclass
class Place:
    path: str
    line: int
    weight: float
    text: str


# ---- rules on one statement ---------------------------------------------------------------------------------------------
def joined(statement):
    """Number of comma operators: `a = 1, b = 2;`, and `if (a = f(), a > 0)`. Headers of for loops are free."""
    count = 0
    if statement.kind == "simple" and not c_source.is_declaration(statement.tokens):
        count += len(c_source.split(statement.tokens, ",")) - 1
    if statement.kind in ("if", "while", "switch"):
        count += len(c_source.split(statement.tokens, ",")) - 1
    return count


def nested_conditionals(tokens):
    """First tokens of conditional expressions that hold another one."""
    found, groups = [], [[]]  # a list of running conditionals for each open bracket, outermost first
    for token in tokens:
        if token.kind != "op":
            continue
        if token.text in "([{":
            groups.append([])
        elif token.text in ")]}" and len(groups) > 1:
            groups.pop()
        elif token.text in (",", ";"):
            groups[-1] = []
        elif token.text == "?":
            running = [c for group in groups for c in group]
            if running and running[0] not in found:
                found.append(running[0])
            groups[-1].append(token)
    return found


def path_at(tokens, at):
    """Access path that begins with the name at `at`, as a tuple (name, ".member", "[]", ...), and the index behind it."""
    path = [tokens[at].text]
    at += 1
    while at < len(tokens):
        if tokens[at].text in (".", "->") and at + 1 < len(tokens):
            path.append("." + tokens[at + 1].text)
            at += 2
        elif tokens[at].text == "[":
            path.append("[]")
            at = c_source.matching(tokens, at) + 1
        else:
            break
    return tuple(path), at


def _is_base(tokens, at):
    before = tokens[at - 1].text if at else ""
    return tokens[at].kind == "name" and tokens[at].text not in c_source.KEYWORDS and before not in (".", "->")


def written(tokens):
    """(paths that are assigned to, names that calls are given as they are): what these tokens may change."""
    paths, given, calls = set(), set(), []
    for at, token in enumerate(tokens):
        if token.text == "(":
            called = at > 0 and (tokens[at - 1].kind == "name" and tokens[at - 1].text not in c_source.KEYWORDS or tokens[at - 1].text == ")")
            calls.append(called)
        elif token.text == ")" and calls:
            calls.pop()
        if not _is_base(tokens, at):
            continue
        path, after = path_at(tokens, at)
        before = tokens[at - 1].text if at else ""
        declared = at > 0 and (tokens[at - 1].kind == "name" and tokens[at - 1].text not in ("return", "else", "case", "sizeof"))
        starred = before == "*" and (at < 2 or tokens[at - 2].kind == "op" and tokens[at - 2].text not in (")", "]"))
        following = tokens[after].text if after < len(tokens) else ""
        if following in c_source.ASSIGN or following in ("++", "--") or before in ("++", "--") or declared:
            paths.add(path + ("[]",) if starred and not declared else path)
        if before == "&" and (at < 2 or tokens[at - 2].text in ("(", ",", "=", "return", "&&", "||", "?", ":", "{")):
            paths.add(path)
        if any(calls) and len(path) == 1 and following in (",", ")"):
            given.add(path[0])
    return paths, given


def constant_part(statement):
    """The part of a for loop's condition that nothing in the loop changes: text, or None."""
    header = c_source.split(statement.tokens, ";")
    if len(header) != 3:
        return None
    terms = c_source.split(header[1], "&&")
    if len(terms) < 2:
        return None
    inside = [t for part in statement.parts for s in part.walk() for t in [*s.tokens, c_source.Token("op", ";", 0)]]
    semicolon = [c_source.Token("op", ";", 0)]
    paths, given = written(header[0] + semicolon + header[2] + semicolon + inside)
    condition_paths, _ = written(header[1])
    paths |= condition_paths
    for term in terms:
        reads, constant = [], True
        for at, token in enumerate(term):
            if not _is_base(term, at):
                continue
            path, after = path_at(term, at)
            if after < len(term) and term[after].text == "(":
                constant = token.text in ("re", "im") and constant
                continue
            reads.append(path)
            changes = any(path[:len(w)] == w for w in paths)
            constant &= not changes and not (len(path) > 1 and path[0] in given)
        variables = [r for r in reads if not (len(r[0]) > 2 and r[0].isupper()) and not r[0].startswith("pb_")]
        if constant and variables:
            return " ".join(t.text for t in term)
    return None


# ---- one file -----------------------------------------------------------------------------------------------------------
def has_opening(source):
    """A comment before any declaration; a header's guard may stand before it."""
    if not source.comments:
        return False
    first = source.comments[0][0]
    heads = ("#ifndef", "#define", "#pragma once")
    before = [text for line, _, text in source.directives if line < first]
    return all(text.startswith(heads) for text in before) and not any(t.line < first for t in source.tokens)


def commented(source):
    """Lines with a comment, alone or behind code."""
    return {n for first, last, _ in source.comments for n in range(first, last + 1)}


def measure(path, text):
    """(sums, {rule: [Place]}, source) of one file."""
    source = c_source.Source(text)
    sums, places = dict.fromkeys(SUMS, 0), {rule: [] for rule in [*COUNTS, *SHARES]}
    sums["lines"] = len(source.lines)

    def found(rule, line, text, weight=1.0, count=1):
        sums[rule] += count
        places[rule].append(Place(path, line, weight, text))

    comments = commented(source)
    for function in source.functions:
        inside = range(function.open + 1, function.last)
        blank = sum(not source.lines[n - 1].strip() for n in inside)
        comment = sum(n in comments for n in inside)
        sums["body"] += len(inside)
        sums["blank"] += blank
        sums["comment"] += comment
        if len(inside) > 12 and not blank:
            places["blank"].append(Place(path, function.first, len(inside), f"{function.name}: {len(inside)} lines in one paragraph"))
        if len(inside) > 20 and not comment:
            places["comment"].append(Place(path, function.first, len(inside), f"{function.name}: {len(inside)} lines without a comment"))
        if function.lines > MOST_LINES:
            found("long_functions", function.first, f"{function.name}: {function.lines} lines", function.lines)
        if function.arguments > MOST_ARGUMENTS:
            found("many_arguments", function.first, f"{function.name}: {function.arguments} arguments", function.arguments)
        for statement in (s for top in c_source.statements(function.body) for s in top.walk()):
            line = statement.tokens[0].line if statement.tokens else 0
            if commas := joined(statement):
                found("commas", line, source.lines[line - 1].strip(), commas)
            for token in nested_conditionals(statement.tokens):
                found("nested", token.line, source.lines[token.line - 1].strip())
            if statement.kind == "for" and (term := constant_part(statement)):
                found("if_loops", line, f"{term}   in   {source.lines[line - 1].strip()}")
    sums["asserts"] = sum(a.text in c_source.ASSERTIONS and b.text == "(" for a, b in zip(source.tokens, source.tokens[1:]))
    if len(source.lines) > MOST_FILE:
        found("long_files", 1, f"{len(source.lines)} lines", len(source.lines))
    if not has_opening(source):
        found("no_opening", 1, source.lines[0][:80] if source.lines else "", len(source.lines))
    for number, line in enumerate(source.lines, 1):
        if len(line) > MOST_COLUMNS:
            found("long_lines", number, f"{len(line)} columns", len(line))
    return sums, places, source


# ---- folders --------------------------------------------------------------------------------------------------------------
def folder_of(path):
    parts = path.relative_to(ROOT).parts
    name = "/".join(parts[:2]) if parts[0] in ("src", "io", "tests") and len(parts) > 2 else parts[0]
    return f"{name} (Python)" if path.suffix == ".py" else name


def measure_python(path, text):
    """The same of a Python file: how long its lines are."""
    sums, places = dict.fromkeys(SUMS, 0), {"long_lines": []}
    for number, line in enumerate(text.splitlines(), 1):
        sums["lines"] += 1
        if len(line) > MOST_PYTHON_COLUMNS:
            sums["long_lines"] += 1
            places["long_lines"].append(Place(path, number, len(line), f"{len(line)} columns"))
    return sums, places, None


def measure_all(folder=None):
    """({folder: sums}, {rule: [Place]})."""
    folders, places = {}, {rule: [] for rule in [*COUNTS, *SHARES]}
    sources = [f for top in TOPS for f in sorted((ROOT / top).rglob("*.[ch]"))]
    scripts = [f for top in PYTHON_TOPS for f in sorted((ROOT / top).rglob("*.py"))]
    for path in sources + scripts:
        name = folder_of(path)
        if folder and name != folder and not name.startswith(folder + "/"):
            continue
        measured = measure_python if path.suffix == ".py" else measure
        sums, found, _ = measured(str(path.relative_to(ROOT)), path.read_text())
        total = folders.setdefault(name, dict.fromkeys(SUMS, 0))
        for key, value in sums.items():
            total[key] += value
        for rule, where in found.items():
            places[rule] += where
    return folders, places


def total_of(folders, tops=None):
    chosen = [sums for name, sums in folders.items() if not tops or name.split("/")[0] in tops]
    return {key: sum(sums[key] for sums in chosen) for key in SUMS}


def share(sums, rule):
    part, whole, _, _, factor, _, _ = SHARES[rule]
    return factor * sums[part] / sums[whole] if sums[whole] else 0.0


def worse(name, now, before):
    """Complaints where `now` is worse than `before`."""
    for rule, (what, _) in COUNTS.items():
        if now[rule] > before[rule]:
            yield f"{name}: {what}: {now[rule]}, stored {before[rule]}"
    for rule, (_, _, what, unit, _, _, slack) in SHARES.items():
        if share(now, rule) < share(before, rule) - slack:
            yield f"{name}: {what}: {share(now, rule):.2f} {unit}, stored {share(before, rule):.2f}"


def compare(folders, stored, moved=False):
    """What got worse. A folder that is new or gone was moved: then all such are compared together."""
    if moved:
        return list(worse("all folders", total_of(folders), total_of(stored)))
    both = [name for name in folders if name in stored]
    found = [text for name in both for text in worse(name, folders[name], stored[name])]
    new = {name: sums for name, sums in folders.items() if name not in stored}
    gone = {name: sums for name, sums in stored.items() if name not in folders}
    if new and gone:
        found += worse(f"{', '.join(new)} (was {', '.join(gone)})", total_of(new), total_of(gone))
    elif new:
        clean = dict(total_of(new), **dict.fromkeys(COUNTS, 0))
        found += worse(f"{', '.join(new)} (new)", total_of(new), clean)
    return found


def read_stored(path=STORED):
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["folder"]: {key: int(row[key]) for key in SUMS} for row in csv.DictReader(file)}


def write_stored(folders, path=STORED):
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["folder", *SUMS])
        for name in sorted(folders):
            table.writerow([name, *(folders[name][key] for key in SUMS)])


def lowered(folders, stored):
    """What is stored next: the better of both. Parts of a share belong together."""
    kept = {}
    for name, now in folders.items():
        before = stored.get(name)
        kept[name] = dict(now)
        if not before:
            continue
        for rule, (part, whole, *_) in SHARES.items():
            if share(now, rule) < share(before, rule):  # within the slack: the old share of the new whole
                kept[name][part] = round(before[part] * now[whole] / before[whole])
    return kept


# ---- report -----------------------------------------------------------------------------------------------------------------
def missed(total):
    """Rules whose goal over src, io and cli is missed."""
    found = {rule for rule in COUNTS if rule != "commas" and total[rule]}
    if total["commas"] >= 0.5e-3 * total["lines"]:
        found.add("commas")
    return found | {rule for rule, values in SHARES.items() if values[5] is not None and share(total, rule) < values[5]}


def report(folders, places, stored, worst):
    total, then = total_of(folders, GOAL_TOPS), total_of(stored, GOAL_TOPS) if stored else None
    if not total["lines"]:
        total, then = total_of(folders), total_of(stored)
    short = missed(total)
    print(f"{total['lines']} lines, {len(folders)} folders")
    for rule, (_, _, what, unit, _, goal, _) in SHARES.items():
        text = f"{share(total, rule):.2f} {unit}"
        aim = f"goal >= {goal} {unit}" if goal else "may only rise"
        print(f"{'MISSED' if rule in short else 'met' if goal else '':7}{what:72}{text:25}{aim:27}", f"stored {share(then, rule):.2f}" if then else "")
        show(places[rule], worst)
    for rule, (what, goal) in COUNTS.items():
        text = f"{total[rule]} ({1000 * total[rule] / total['lines']:.2f} per 1000)" if total["lines"] else "0"
        print(f"{'MISSED' if rule in short else 'met':7}{what:72}{text:25}goal {goal:22}", f"stored {then[rule]}" if then else "")
        show(places[rule], worst)
    return short


def show(places, worst):
    for place in sorted(places, key=lambda p: (-p.weight, p.path, p.line))[:worst]:
        print(f"         {place.path}:{place.line}: {place.text}")


def names_of(function):
    """Lengths of the names in a function, each counted once."""
    return [len(name) for name in {t.text for t in function.body if t.kind == "name"} - c_source.KEYWORDS]


def report_names(folder):
    lengths = []
    for path in (f for top in GOAL_TOPS for f in sorted((ROOT / top).rglob("*.[ch]"))):
        name = folder_of(path)
        if not folder or name == folder or name.startswith(folder + "/"):
            lengths += [n for f in c_source.Source(path.read_text()).functions for n in names_of(f)]
    if lengths:
        few = 100 * sum(n <= 2 for n in lengths) / len(lengths)
        print(f"       names of one or two letters {few:.0f} %, median length {statistics.median(lengths):.0f} (no limit)")


def main():
    parser = argparse.ArgumentParser(description="Style of the C sources, against what is stored.")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="the N worst places of each rule")
    parser.add_argument("--folder", help="only this folder, as src/solve")
    parser.add_argument("--store", action="store_true", help="store what is better now")
    parser.add_argument("--moved", action="store_true", help="code moved between folders: compare the totals alone")
    parser.add_argument("--goals", action="store_true", help="fail where a goal is missed")
    asked = parser.parse_args()
    folders, places = measure_all(asked.folder)
    if not folders:
        sys.exit(f"no sources in {asked.folder or ROOT}")
    stored = read_stored()
    if asked.folder:
        stored = {name: sums for name, sums in stored.items() if name in folders}
    short = report(folders, places, stored, asked.worst)
    report_names(asked.folder)

    bad = compare(folders, stored, asked.moved) if stored else []
    for text in bad:
        print(f"WORSE  {text}")
    if bad:
        print("" if asked.moved else "where code only went from one folder to another: --store --moved")
        return 1
    if asked.store:
        write_stored({**read_stored(), **lowered(folders, stored)} if asked.folder else lowered(folders, {} if asked.moved else stored))
        print(f"stored in {STORED.relative_to(ROOT)}")
    return 1 if asked.goals and short else 0


if __name__ == "__main__":
    sys.exit(main())
