"""Steps beside MuJoCo's, a line per model and integrator.

    python tests/oracle/table.py [--long] [--integrator NAME] [MODEL.xml ...]

One step must agree to 1e-10 and a hundred to 1e-8, relative to the size of the state. A run counts as far as MuJoCo
itself answers a 1e-14 change of the start with less than a fifth of that; runs cut short by this say so.
Exit status 1 if any run falls short. PULLBACK_BUILD names the build folder.
"""
import argparse
import dataclasses
import sys
import warnings

import numpy as np

import oracle
import inside

ONE, HUNDRED, STEPS = 1e-10, 1e-8, 100


@dataclasses.dataclass
class Line:
    model: str
    integrator: str
    contacts: int = 0
    compared: int = 0      # steps
    one: float = 0.0       # difference after the first step
    hundred: float = 0.0   # largest over the steps compared
    sensors: float = 0.0   # largest of the sensors of positions and velocities, relative
    error: str = ""
    steps: int = STEPS

    @property
    def holds(self):
        return not self.error and self.one <= ONE and self.hundred <= HUNDRED

    def __str__(self):
        if self.error:
            return f"{self.model:28s} {self.integrator:12s} FALLS SHORT {self.error}"
        note = "" if self.holds else "FALLS SHORT"
        if self.compared < self.steps:
            note += f" left out from step {self.compared + 1}: MuJoCo's own answer hangs on the last bit, or shapes of the convex tier meet"
        return f"{self.model:28s} {self.integrator:12s} contacts {self.contacts:3d}  one step {self.one:.1e}  {self.compared:3d} steps {self.hundred:.1e} {note}"


def measure(path, options=None, key=0, steps=STEPS):
    line = Line(oracle.name(path), (options or {}).get("integrator", "own"), steps=steps)
    m = oracle.load(path, options)
    x, controls = oracle.start(m, (line.model, line.integrator, key), steps, beyond=1.2)
    run = oracle.roll(m, x, controls)
    line.contacts, line.compared = run.contacts, oracle.trusted(m, x, controls, run, HUNDRED)
    try:
        model = inside.Model(path, options)
        y = model.state(x.qpos, x.qvel, x.act)
        for k in range(line.compared):
            y, _ = model.step(y, controls[k])
            e = oracle.distance(np.concatenate(model.parts(y)), run.states[k + 1])
            if k == 0:
                line.one = e
            line.hundred = max(line.hundred, e)
    except inside.Error as error:
        line.error = str(error).replace("\n", " ")[:200]
    return line


def main(args):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--long", action="store_true", help="four starts instead of one")
    p.add_argument("--integrator", choices=oracle.INTEGRATORS, action="append")
    p.add_argument("model", nargs="*")
    a = p.parse_args(args)
    warnings.simplefilter("ignore")
    bad = n = cut = 0
    worst_one = worst = 0.0
    for path in a.model or oracle.MODELS:
        for integrator in a.integrator or oracle.INTEGRATORS:
            for key in range(4 if a.long else 1):
                line = measure(path, {"integrator": integrator}, key)
                print(line, flush=True)
                n, bad, cut = n + 1, bad + (not line.holds), cut + (line.compared < STEPS)
                if not line.error:
                    worst_one, worst = max(worst_one, line.one), max(worst, line.hundred)
    print(f"{n - bad}/{n} runs agree ({cut} of them cut short); worst one step {worst_one:.1e}, worst hundred {worst:.1e}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
