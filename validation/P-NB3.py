"""A block at rest is pushed up

A block lies on the floor at rest; a force from below shall bring it to a height of 1 m, and the search begins at no force. The floor answers a
little force by as much less of its own, so that by the exact derivative through hard contact nothing changes: every gradient is zero. The
derivative of smoothed contact, at the states of the sharp motion, leaves from there, by searches along gradients and by plans. (Nimble
shows this as the saddle that its complementarity-aware gradient escapes.)"""
from common import Bench, reported, row

BLOCK = """<mujoco><option timestep="0.005"/><worldbody><geom name="floor" type="plane" size="5 5 1"/><body name="block" pos="0 0 {height}">
<joint name="up" type="slide" axis="0 0 1"/><geom name="box" type="box" size=".1 .1 .1" mass="1"/></body></worldbody>
<actuator><motor name="push" joint="up" ctrlrange="-40 40" ctrllimited="true"/></actuator></mujoco>"""


def task(height, **more):
    return {"model": BLOCK.format(height=height), "duration": 0.6, "variables": [{"name": "push", "control": "push", "knots": 12}],
            "loss": [{"name": "height", "body": "block", "components": [2], "target": [1]}, {"name": "effort", "control": True, "at": "all", "weight": 1e-8}],
            "optimizer": {"method": "lbfgs", "iterations": 200, "saddle": "report"}, "stop": {"terms": {"height": 0.01}}} | more


def search(bench, height, method, mode):
    r = bench.optimize(bench.write("push.json", task(height, contact={"method": method}, mode=mode)))
    return r, next(t["deviation"] for t in r["terms"] if t["name"] == "height")


def rows():
    out, methods = [], (("cones", "exact"), ("lcp", "exact"), ("soft", "smooth"))
    with Bench() as bench:
        for method, mode in methods:
            # hard contact leaves no gap, soft contact sinks in by its weight
            r, miss = search(bench, 0.1, method, mode)
            said = f"{r['outcome']} after {r['iterations']}, {miss:.3f} m off"
            if mode == "smooth":
                out.append(row(f"{method}, mode {mode}: from no force to 1 m", said, "<= 0.01 m", miss <= 0.01))
            else:
                stuck = r["iterations"] <= 2 and miss > 0.85
                out.append(row(f"{method}, mode {mode}: is stuck", said, "> 0.85 m", stuck))
        # the same by plans: linearized with smooth contact, then as it is; and without the first stage
        for stages in ([{"mode": "smooth"}, {}], [{}]):
            ilqr = {"method": "ilqr", "iterations": 100, "saddle": "report"}
            plan = {"optimizer": ilqr, "contact": {"method": "soft"}, "stages": stages}
            r = bench.optimize(bench.write("push.json", task(0.1, **plan)))
            miss = next(t["deviation"] for t in r["terms"] if t["name"] == "height")
            said = f"{r['outcome']} after {r['iterations']}, {miss:.3f} m off"
            if len(stages) > 1:
                out.append(row("iLQR, a smooth stage, then the sharp one: from no force to 1 m", said, "<= 0.01 m", miss <= 0.01))
            else:
                out.append(reported("iLQR, the sharp stage alone", said))
        r, miss = search(bench, 0.1, "soft", "exact")
        out.append(reported("soft, mode exact: springs give a little", f"{r['outcome']} after {r['iterations']}, {miss:.3f} m off"))
        return out
