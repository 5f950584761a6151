#!/usr/bin/env python3
"""make demo: a throw, a pendulum's physics, a robot's masses, a bar's rubber and a hand's path found by gradient, an arm that learns to
reach and a quadruped that learns to run; a page with pictures that play and curves, out/index.html, and what it is made of beside it.

    tools/demo.py PROGRAM [PART ...]     (build/release/pullback; without a part: all of them)

Every number comes from the program: `pullback optimize TASK.json` finds, `pullback train TASK.json` learns, `pullback simulate` makes the
recordings whose truth is known here and measures. Needs nothing but Python. The page is written anew after each part. Exit status 1 where a
number is outside its bounds: what was required is told on standard error.
"""
import difflib
import os
import sys
import time

import demo_page
import demo_parts
import demo_run


def chosen(names):
    """The parts asked for, in the order in which they are computed."""
    every = list(demo_parts.PARTS)
    for name in names:
        if name not in every:
            near = difflib.get_close_matches(name, every, 1)
            sys.exit(f"make demo: there is no part '{name}'" + (f"; did you mean '{near[0]}'?" if near else "") + f" (PART={'|'.join(every)})")
    return [name for name in every if not names or name in names]


def number(x):
    return x if isinstance(x, str) else f"{x:.6g}"


def failures(part):
    """Rows that do not hold, in words, with what was required."""
    for row in part["rows"]:
        if row[-1] is False:
            yield f"{row[0]}: " + ", ".join(f"{name} {number(x)}" for name, x in zip(part["columns"][1:-1], row[1:-1]))


def main(words):
    program_path, names = (words or [os.path.join(demo_run.ROOT, "build", "release", "pullback")])[0], chosen(words[1:])
    os.makedirs(demo_run.OUT, exist_ok=True)
    path, begin, parts, failed = os.path.join(demo_run.OUT, "index.html"), time.monotonic(), {}, []
    progress = demo_run.Progress({name: demo_parts.PARTS[name][1] for name in names})
    program = demo_run.Program(program_path, progress)
    where = os.path.relpath(path, os.getcwd())
    for name in names:
        progress.start(name)
        parts[name] = dict(demo_parts.PARTS[name][0](program), name=name)
        progress.end()
        progress.say("  " + "; ".join(f"{row[0]}: {number(row[1])}" for row in parts[name]["rows"]))
        failed += failures(parts[name])

        # what there is so far, from the first part on
        missing = [n for n in names if n not in parts]
        rest = f"Still being computed: {', '.join(missing)}." if missing else ""
        shown = [parts[n] for n in demo_parts.SHOWN if n in parts]
        shown += [dict(demo_parts.contacts(), name="contacts")] if not words[1:] else []
        demo_page.write(path, shown, program.version(), rest)
        if len(parts) == 1 and missing:
            progress.say(f"{where}: the first picture, after {time.monotonic() - begin:.0f} s")
    progress.say(f"{where}: pictures that play, curves and numbers, {time.monotonic() - begin:.0f} s")
    for row in failed:
        print(f"make demo: does not hold: {row}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
