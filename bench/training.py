"""What trainings reach within how many decisions, beside published figures: `make bench-training`, or with words.

    task=ant method=shac,ppo seed=0,1 decisions=800000      only these; each is a list
    published                                               what is in the table beside the published figures, nothing is run

Each training goes on after a kill, and each that has ended is a row of bench/results/training.csv, so that the same words again
do what is left. Pages to watch are in build/training: one of each training, and one of its audit. Returns of other engines are
goals: their physics are not ours. Needs Gymnasium (make python-env) for hopper and cheetah, whose column `gymnasium` is what
Gymnasium's own code says of the best policy on our physics, mean of 20 episodes and their deviation."""
import os
import statistics
import sys

from learning import ROOT, TASKS, Table, audit, gymnasium_return, learn

RESULTS = os.path.join(ROOT, "bench", "results", "training.csv")
COLUMNS = ["task", "method", "seed", "decisions", "seconds", "best", "reached", "agreement", "window", "gymnasium", "verdict"]
ENVIRONMENTS = {"hopper": "Hopper-v5", "cheetah": "HalfCheetah-v5", "walker": "Walker2d-v5"}

# task: decisions of a training
PLAN = {"ant": 1_000_000, "hopper": 200_000, "cheetah": 200_000}
METHODS, SEEDS = ("shac", "ppo"), range(5)

# task: (bar, decisions of it, whose)
PUBLISHED = {"ant": [(3621, 2_000_000, "SHAC, arXiv 2412.12089, table 2"), (4536, 4_000_000, "SAPO, the same")],
             "hopper": [(2410, 200_000, "PPO of rl-baselines3-zoo, which had 1 M")],
             "cheetah": [(5819, 200_000, "PPO of rl-baselines3-zoo, which had 1 M")]}


def run(table, task, method, seed, decisions):
    if table.has(task=task, method=method, seed=seed, decisions=decisions):
        return
    found = learn(task, method, seed, decisions)
    row = {"task": task, "method": method, "seed": seed, **found, "decisions": decisions, "reached": found["first"],
           "verdict": audit(found["path"])}
    if task in ENVIRONMENTS:
        row["gymnasium"] = "{:.0f} +- {:.0f}".format(*gymnasium_return(found["path"], ENVIRONMENTS[task]))
    table.add(row)
    print(f"{task} by {method}, seed {seed}, {decisions} decisions: {row['best']} at {row['reached']}, agreement {row['agreement']}, "
          f"window {row['window']}, {row['seconds']} s; Gymnasium says {row.get('gymnasium', '-')}; {row['verdict'][:90]}; "
          f"{found['path']}.html", flush=True)


def worth(row):
    """Gymnasium's word where there is one."""
    return float(row["gymnasium"].split()[0]) if row["gymnasium"] else float(row["best"])


def published(table):
    """Prints what holds."""
    for task, bars in PUBLISHED.items():
        for bar, most, whose in bars:
            rows = [r for r in table.rows if r["task"] == task and int(r["decisions"]) <= most]
            best = {(r["method"], r["seed"]): worth(r) for r in sorted(rows, key=worth)}
            for method in METHODS:
                all_seeds = [v for (m, _), v in best.items() if m == method]
                if all_seeds:
                    good = sum(v >= bar for v in all_seeds)
                    sure = {r["seed"] for r in rows if r["method"] == method and r["verdict"].startswith("confirmed") and worth(r) >= bar}
                    print(f"{task} by {method}: {good} of {len(all_seeds)} seeds reach {bar} ({whose}) within {most} decisions, "
                          f"median {statistics.median(all_seeds):.0f}; {len(sure)} of these confirmed by the audit")


def lists(words, name, default, read=str):
    """The values of name=a,b among the words."""
    found = [w[len(name) + 1:] for w in words if w.startswith(name + "=")]
    return [read(v) for w in found for v in w.split(",")] or list(default)


def main(words):
    unknown = [w for w in words if w != "published" and w.split("=")[0] not in ("task", "method", "seed", "decisions")]
    tasks = lists(words, "task", PLAN)
    if unknown or set(tasks) - set(TASKS):
        sys.exit(f"expected words task=, method=, seed=, decisions= or published, found {' '.join(unknown or tasks)}; tasks: {' '.join(TASKS)}")
    table = Table(RESULTS, COLUMNS, ("task", "method", "seed", "decisions"))
    if "published" not in words:
        for task in tasks:
            for decisions in lists(words, "decisions", [PLAN.get(task, 200_000)], int):
                for method in lists(words, "method", METHODS):
                    for seed in lists(words, "seed", SEEDS, int):
                        run(table, task, method, seed, decisions)
    published(table)


if __name__ == "__main__":
    main(sys.argv[1:])
