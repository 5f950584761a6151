"""Heavy on light: depth of soft contact

Artifacts of soft contact: heavy on light. The deepest penetration is reported, and named where it is deep."""
import json
import subprocess

from common import PROGRAM, Bench, below, row

G, HEAVY = 9.81, 100.0
STACK = """<mujoco><option timestep="5e-5"/><worldbody><geom name="floor" type="plane" size="0 0 1" condim="1"/>
<body pos="0 0 .1"><joint type="slide" axis="0 0 1"/><geom name="light" size=".1" mass=".1" condim="1"/></body>
<body pos="0 0 .3"><joint type="slide" axis="0 0 1"/><geom name="heavy" size=".1" mass="100" condim="1"/></body></worldbody></mujoco>"""


def rows():
    out = []
    cases = {"penalty, k = 1e4 N/m": (["method=penalty", "stiffness=1e4", "damping=1500"], True),
             "penalty, k = 1e6 N/m": (["method=penalty", "stiffness=1e6", "damping=1500"], False)}
    with Bench() as bench:
        path = bench.write("stack.xml", STACK)
        for name, (settings, deep) in cases.items():
            words = [w for s in settings for w in ("--contact", s)]
            run = bench.simulate(path, "--steps", 120000, *words)
            meta, q = json.loads(str(run["meta"])), run["qpos"]
            seen, k = meta["penetration"], float(settings[1].split("=")[1])
            truth = max((-q[:, 0]).max(), (q[:, 0] - q[:, 1]).max())
            out += [below(f"{name}: deepest penetration in meta against the trajectory [m]", abs(seen["depth"] - truth), 1e-12),
                    below(f"{name}: penetrations at rest against weight / k, relative",
                          max(abs(-q[-1, 0] * k / ((HEAVY + 0.1) * G) - 1), abs((q[-1, 0] - q[-1, 1]) * k / (HEAVY * G) - 1)), 1e-9)]
            done = subprocess.run([PROGRAM, "check", path, "--json", "--horizon", "2000", *words], capture_output=True, text=True)
            found = [f for f in json.loads(done.stdout)["findings"] if f["what"] == "deep penetration"]
            said = " ".join(f["why"] for f in found)
            holds = bool(found) == deep and (not deep or "'light'" in said)
            out.append(row(f"{name}: {seen['depth']:.3g} m of 0.1 m of radius: a finding of check that names the geoms", "yes" if found else "no",
                           "yes" if deep else "no", holds))
    return out
