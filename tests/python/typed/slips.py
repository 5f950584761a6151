"""What a user mistypes, for `mypy --strict` and pyright (test_types.py): each line that says `slip` is an error, and no other. It never runs."""
import numpy as np

import pullback as pb

model = pb.load("model.xml", options={"tolerance": 0})
state = model.init(batch=3)
ctrl = np.zeros((5, model.nu))
rollout = model.rollout(state, ctrl, params={"body_mass": np.ones(3)}, on_failure="mask", outputs=("sensordata", "xpos"), gradient="event")
gradient = rollout.vjp(qpos=np.ones(3), wrt=["ctrl"])
tangent = rollout.jvp(ctrl=ctrl)
state.qvel[:] = 1
state.qvel = [0, 1, 2]
numbers: list[float] = [float(a.sum()) for a in (rollout.qpos, rollout.sensordata, gradient.ctrl, gradient.params["body_mass"], tangent.xpos, state.flat)]
sizes: int = model.nq + model.ngeom + model.ncommand

spec = pb.Spec.load("model.xml")
arm = spec.worldbody.add_body(name="arm", pos=[0, 0, 1], euler=(0, 90, 0))
foot = arm.add_geom(type="capsule", size=[.1, .2, 0], fromto=None, mass=None)
foot.size[0] *= 2
foot.friction = np.ones(3)
foot.body, foot.frame, spec.option.integrator = arm, None, "RK4"
spec.add_tendon(path=[{"type": "joint", "target": "knee", "value": 1}], limited="auto")
masses: list[float] = [g.mass for g in spec.geoms]
bent: pb.Model = spec.copy().compile(options={"tolerance": 0})

model.rollout(state, ctrl, parms={"body_mass": np.ones(3)})  # slip
model.rollout(state, ctrl, on_failur="mask")  # slip
model.rollout(state, ctrl, on_failure="mark")  # slip
model.rollout(state, ctrl, threads="all")  # slip
state.qvl = np.ones(3)  # slip
state.qvel = None  # slip
rollout.qpso  # slip
rollout.qpos = ctrl  # slip
gradient.contrl  # slip
tangent.qpso  # slip
model.nqq  # slip
model.nq.shape  # slip
pb.Objective(model, state, lambda r: (0.0, {"qvel": r.qvel}), ctrl, gradent="exact")  # slip
pb.Objective(model, state, lambda r: (0.0, {"qvel": r.qvl}), ctrl)  # slip
pb.loads("<mujoco/>", asset={})  # slip
spec.add_geom(siez=[1, 1, 1])  # slip
arm.add_joint(type="hnige")  # slip
foot.siez = [1, 1, 1]  # slip
foot.mass = "1"  # slip
foot.body = foot  # slip
foot.fuse = True  # slip
spec.geom("foot").limited  # slip
spec.option.integrater = "RK4"  # slip
spec.option.integrator = "RK5"  # slip
spec.geos  # slip
spec.add_tendon(path=[{"typ": "joint"}])  # slip
spec.compile(option={})  # slip
