"""Contacts stand in MuJoCo's order, with its midphase and without: what sweeps against slip and contact sensors go by."""
import random

import mujoco
import numpy as np
import pytest

import pullback as pb

SCENES = 60
SHAPES = ["sphere", "capsule", "box"]  # of which MuJoCo has the contacts in closed form


def scene(seed, pairs):
    """Bodies of up to six geoms of any type, close together; explicit pairs among all of them."""
    r = random.Random(seed)
    v = lambda n, a: " ".join(f"{r.uniform(-a, a):.4f}" for _ in range(n))
    out = ['<worldbody><geom name="w_0" type="plane" size="1 1 .1"/><geom name="w_1" type="box" size=".1 .1 .02"/>']
    names = ["w_0", "w_1"]
    for b in range(r.choice([2, 3, 4])):
        out.append(f'<body pos="{v(2, .05)} {r.uniform(.02, .1):.4f}"><freejoint/>')
        for g in range(r.choice([1, 1, 2, 3, 4, 6])):
            names.append(f"{b}_{g}")
            out.append(f'<geom name="{b}_{g}" type="{r.choice(SHAPES)}" size=".06 .05 .04" pos="{v(3, .05)}" euler="{v(3, 90)}"/>')
        out.append("</body>")
    out.append("</worldbody>")
    chosen = {frozenset(p) for p in (r.sample(names, 2) for _ in range(3)) if not p[0][0] == p[1][0] == "w"} if pairs else ()
    rows = "".join(f'<pair geom1="{a}" geom2="{b}"/>' for a, b in map(sorted, sorted(chosen, key=sorted)))
    return "".join(out) + (f"<contact>{rows}</contact>" if rows else "")


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("midphase", ["enable", "disable"])
def test_random_bodies_of_several_geoms(midphase, pairs):
    turned = 0
    for seed in range(SCENES):
        text = f'<mujoco><option noslip_iterations="3"><flag midphase="{midphase}"/></option>{scene(seed, pairs)}</mujoco>'
        model, theirs = pb.loads(text), mujoco.MjModel.from_xml_string(text)
        d = mujoco.MjData(theirs)
        mujoco.mj_forward(theirs, d)
        ours = [tuple(map(int, g)) for g in np.reshape(model.evaluate(model.init(), names=["contact_geom"])["contact_geom"], (-1, 2))]
        order = [tuple(map(int, c.geom)) for c in d.contact]
        assert ours == order, f"seed {seed}"
        turned += any(theirs.geom_bodyid[a] > theirs.geom_bodyid[b] for a, b in order)
    assert turned > SCENES // 4  # types turn the geoms round, which is where the two orders differ


def test_the_order_follows_the_option():
    text = f"<mujoco>{scene(3, True)}</mujoco>"
    flagged = text.replace("<mujoco>", '<mujoco><option><flag midphase="disable"/></option>')
    order = lambda m: m.evaluate(m.init(), names=["contact_geom"])["contact_geom"].tolist()
    assert order(pb.loads(text, options={"midphase": False})) == order(pb.loads(flagged)) != order(pb.loads(text))


SELF = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/><body name="a" pos="0 0 .045"><freejoint/><geom name="a" type="sphere" size=".05"/>%s</body></worldbody>
<contact><pair geom1="a" geom2="b"/></contact><actuator><adhesion body="a" gain="5" ctrlrange="0 1"/></actuator></mujoco>"""


@pytest.mark.parametrize("other", ['<geom name="b" type="box" size=".05 .05 .05" pos=".08 0 .03"/>', '<body pos=".08 0 .03"><geom name="b" type="box" size=".05 .05 .05"/></body>'])
def test_adhesion_leaves_out_contacts_of_a_body_with_itself(other):
    model, theirs = pb.loads(SELF % other), mujoco.MjModel.from_xml_string(SELF % other)
    d = mujoco.MjData(theirs)
    d.ctrl[:] = .7
    mujoco.mj_forward(theirs, d)
    assert d.ncon == 2
    assert model.evaluate(model.init(), [.7], names=["qfrc_actuator"])["qfrc_actuator"] == pytest.approx(d.qfrc_actuator, abs=1e-12)
