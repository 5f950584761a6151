"""Box dropped on one edge or the other

A box dropped on the one or the other edge: the motion jumps at the angle 0, and on both sides its gradient is right.

A box in the plane, half size 0.1, turned by an angle of at most 0.02, flies down with (-1, -2) m/s. The lower corner strikes first and turns
it, the one way or the other: with rigid impacts what it does later jumps where the angle changes its sign and both corners strike
at once. Truth: differences; of soft contacts of the mean over the phases of touch within a time step."""
import numpy as np

from common import Bench, below, row
import inside

BOX = """<mujoco><option timestep="{h}" gravity="0 0 0"><flag refsafe="disable"/></option><default><geom condim="3" friction="{mu} .005 .0001"
solref="-2e4 -40" solimp=".95 .95 .001"/></default><worldbody><geom type="plane" size="5 5 .1"/><body><joint type="slide" axis="1 0 0"/>
<joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 1 0"/><geom type="sphere" size=".001" pos="-.1 0 -.1" mass=".5"/>
<geom type="sphere" size=".001" pos=".1 0 -.1" mass=".5"/><geom type="box" size=".1 .1 .1" mass="1" contype="0" conaffinity="0"/></body>
</worldbody></mujoco>"""
H, T, SPEED = 2e-4, 0.055, 2.0


def outcome(x):
    """What is looked at: the speed of the box along the floor and its turning."""
    return x[4] + 0.1 * x[6]


def rows():
    out = []
    with Bench() as bench:
        for mu, method in ((1e-5, "soft"), (1, "soft"), (1e-5, "impact"), (1, "impact")):
            contact = {"method": method, "restitution": 0.3} if method == "impact" else {}
            m = inside.Model(bench.write("box.xml", BOX.format(h=H, mu=mu)), contact=contact)
            r = inside.Rollout(m, round(T / H))
            start = lambda angle, dz=0.0: m.state([0, 0.101 + 0.02 + 0.06 + dz, angle], [-1, -SPEED, 0])
            value = lambda angle, dz=0.0: outcome(r.forward(start(angle, dz)))
            cotangent = {"qvel": np.array([1, 0, 0.1])}
            mode = "event" if method == "soft" else "exact"
            name, jump = f"{method}, mu = {0 if mu < 1 else 1}", value(1e-9) - value(-1e-9)
            if method == "impact":
                out.append(row(f"{name}: jump of vx + 0.1 wy at the angle 0", jump, "> 0.1 in size", abs(jump) > 0.1))
            r.forward(start(0.0))
            named = r.vjp(mode, **cotangent)[2].simultaneous
            out.append(row(f"{name}: simultaneous contacts named at the angle 0", str(named), "> 0", named > 0))
            phases = (np.arange(40) / 40 - 0.5) * H * SPEED if method == "soft" else [0.0]
            e, errors, texts = 1e-3 if method == "soft" else 1e-6, [], []
            for angle in (-0.02, -0.01, 0.01, 0.02):
                true = np.mean([value(angle + e, p) - value(angle - e, p) for p in phases]) / (2 * e)
                got, exact = [], []
                for p in phases:
                    r.forward(start(angle, p))
                    got.append(r.vjp(mode, **cotangent)[0][2])
                    exact.append(r.vjp("exact", **cotangent)[0][2])
                errors.append(abs(np.mean(got) / true - 1))
                texts.append(f"{np.mean(exact):.4g} / {np.mean(got):.4g} / {true:.4g}")
            if method == "soft":
                out.append(row(f"{name}: derivative by the angle at -0.02 and 0.02, exact / event / true", f"{texts[0]} and {texts[-1]}", "reported", True))
            out.append(below(f"{name}: largest relative error of {mode}, angles -0.02, -0.01, 0.01, 0.02", max(errors), 0.02 if method == "soft" else 1e-6))
    return out
