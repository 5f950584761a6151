"""Windows that follow the agreement of gradients beside fixed ones, at equal decisions: `make bench-windows`, or with words.

    task=swing,ant seed=0 window=auto,8 decisions=100000    only these; each is a list
    summary                                                 medians of what is in the table, nothing is run

One training for each window; what is told is the least mean loss of evaluated episodes (of runners the reward of 1000 decisions),
and the processor time. Each training goes on after a kill, and each that has ended is a row of bench/results/windows.csv: the
same words again do what is left. The column `window` has the windows in use, each with its share of the decisions."""
import os
import statistics
import sys

from learning import ROOT, TASKS, THOUSAND, Table, learn
from training import lists

RESULTS = os.path.join(ROOT, "bench", "results", "windows.csv")
COLUMNS = ["task", "seed", "asked", "decisions", "best", "reached", "agreement", "window", "seconds"]
FIXED = (4, 8, 16, 32, 64)
AUTO = {"most": 64, "agree": 0.5}
BEHIND = 0.1  # of the best fixed one, at most

# decisions of a training; of tasks whose returns differ by seeds more than by windows, more would be better
PLAN = {"swing": 200_000, "hopper": 100_000, "cheetah": 100_000, "walker": 100_000, "ant": 130_000, "quadruped": 50_000,
        "muscles": 30_000}


def run(table, task, seed, asked, decisions):
    if table.has(task=task, seed=seed, asked=asked, decisions=decisions):
        return
    method = "bptt" if task == "muscles" else "shac"
    found = learn(task, method, seed, decisions, AUTO if asked == "auto" else int(asked), evaluations=8)
    row = {"task": task, "seed": seed, "asked": asked, **found, "decisions": decisions, "reached": found["first"]}
    table.add(row)
    print(", ".join(f"{k} {row[k]}" for k in COLUMNS), flush=True)


def summary(table):
    """Medians over seeds, and how far the automatic window is behind the best fixed one."""
    for task, decisions in sorted({(r["task"], r["decisions"]) for r in table.rows}):
        found = {}
        for r in table.rows:
            if (r["task"], r["decisions"]) == (task, decisions):
                found.setdefault(r["asked"], []).append(float(r["best"]))
        sign = 1 if task in THOUSAND else -1
        medians = {k: statistics.median(v) for k, v in found.items()}
        fixed = {k: v for k, v in medians.items() if k != "auto"}
        said = ", ".join(f"{k}: {v:.4g} ({len(found[k])})" for k, v in sorted(medians.items(), key=lambda kv: kv[0].zfill(4)))
        if not fixed or "auto" not in medians:
            print(f"{task}, {decisions} decisions: {said}")
            continue
        best = max(fixed, key=lambda k: sign * fixed[k])
        behind = sign * (fixed[best] - medians["auto"]) / abs(fixed[best])
        print(f"{task}, {decisions} decisions: {said}; the automatic one is {100 * behind:.0f} % behind {best}: "
              f"{'holds' if behind <= BEHIND else 'MISSED'}")


def main(words):
    tasks = lists(words, "task", PLAN)
    unknown = [w for w in words if w != "summary" and w.split("=")[0] not in ("task", "seed", "window", "decisions")]
    if unknown or set(tasks) - set(TASKS):
        sys.exit(f"expected words task=, seed=, window=, decisions= or summary, found {' '.join(unknown or tasks)}; "
                 f"tasks: {' '.join(TASKS)}")
    table = Table(RESULTS, COLUMNS, ("task", "seed", "asked", "decisions"))
    if "summary" not in words:
        for task in tasks:
            for seed in lists(words, "seed", range(5), int):
                for asked in lists(words, "window", ("auto", *map(str, FIXED))):
                    run(table, task, seed, asked, lists(words, "decisions", [PLAN[task]], int)[0])
    summary(table)


if __name__ == "__main__":
    main(sys.argv[1:])
