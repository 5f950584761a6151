"""Gradients by chosen parameters: the same bits as by all, and nothing else touched."""
import os
import subprocess

import numpy as np
import pytest

import oracle
import inside

BY_NAME = {oracle.name(p): p for p in oracle.OWN}
STEPS = 14
CASES = [(p, {}, {}) for p in oracle.MODELS] + [(BY_NAME["rich"], {"integrator": i, "cone": c}, {}) for i in oracle.INTEGRATORS for c in ("pyramidal", "elliptic")] + [
    (BY_NAME[n], {"integrator": i}, {}) for n in ("joints", "tendon_fixed", "tendon_spatial", "fluid_box", "fluid_ellipsoid", "gravcomp")
    for i in oracle.INTEGRATORS] + [(BY_NAME["rich"], {"cone": c}, {"kappa": 0.01}) for c in ("pyramidal", "elliptic")] + [
    (BY_NAME[n], {}, {"method": m}) for n in ("contact_box", "mixing") for m in ("lcp", "penalty")] + [
    (BY_NAME[n], {}, {"method": "impact"}) for n in ("planar",)]
CASE_ID = lambda c: "-".join([oracle.name(c[0]), *c[1].values(), *(f"{k}={v}" for k, v in c[2].items())])


class Run:
    """A rollout with contacts, from a state beyond the limits, and cotangents of everything that is seen."""

    def __init__(self, path, options=None, contact=None, kind="exact"):
        m, self.model = oracle.load(path, options or {}), inside.Model(path, options, contact=contact)
        self.r = np.random.default_rng(oracle.seed(oracle.name(path), str(options), str(contact), "wanted"))
        x, controls = oracle.start(m, (oracle.name(path), "wanted"), 12 + STEPS, beyond=1.4)
        run = oracle.roll(m, x, controls[:12])
        x = run.states[min(12, run.exact)]
        self.rollout, self.kind = inside.Rollout(self.model, STEPS), kind
        self.rollout.forward(self.model.state(x.qpos, x.qvel, x.act), ctrl=np.array(controls[12:12 + STEPS]))
        s, r = self.model, self.r
        self.bar = dict(qpos=r.standard_normal(s.nv), qvel=r.standard_normal(s.nv), sensordata=r.standard_normal((STEPS + 1, s.nsensordata)),
                        xpos=r.standard_normal((STEPS + 1, s.nbody, 3)), site_xpos=r.standard_normal((STEPS + 1, s.nsite, 3)))

    def gradient(self, want, theta=None):
        self.rollout.want(want)
        x0, theta, _ = self.rollout.vjp(self.kind, into=theta, **self.bar)
        return x0, theta

    def faults(self, want, all_x0, all_theta):
        """What a choice changes: nothing, but for what is not wanted, which keeps its place."""
        before = self.r.standard_normal(self.model.ntheta)
        x0, theta = self.gradient(want, np.where(self.entries(want), 0, before))
        kept = np.where(self.entries(want), all_theta, before)
        found = [] if x0.tobytes() == all_x0.tobytes() else ["x0"]
        return found + [f for f in self.model.params if self.model.param(theta, f).tobytes() != self.model.param(kept, f).tobytes()]

    def entries(self, want):
        wanted = np.zeros(self.model.ntheta, bool)
        for field in want:
            self.model.param(wanted, field)[...] = True
        return wanted


def faults(run, choices):
    fields, wrong = [f for f in run.model.params if run.model.param(run.model.theta, f).size], {}
    try:
        x0, theta = run.gradient(None)
    except inside.Error:  # of the motion, with or without a choice
        return None
    for k in range(choices):
        want = [str(f) for f in run.r.choice(fields, size=run.r.integers(1, 1 + (8 if k % 2 else len(fields))), replace=False)]
        found = run.faults(want, x0, theta)
        if found:
            wrong[", ".join(want)] = found
    for field in fields if choices else []:  # alone: no other field has its groups computed
        found = run.faults([field], x0, theta)
        if found:
            wrong[field] = found
    return wrong


@pytest.mark.parametrize("case", CASES, ids=CASE_ID)
def test_wanted_gradients_have_the_same_bits(case):
    try:
        run = Run(*case)
    except inside.Error as error:
        pytest.skip(str(error))
    assert not faults(run, 6)


@pytest.mark.parametrize("kind", ["event", "smooth"])
@pytest.mark.parametrize("name", ["contact_plane", "rich"])
def test_other_gradients(name, kind):
    assert not faults(Run(BY_NAME[name], contact={"smooth_kappa": 0.01} if kind == "smooth" else {}, kind=kind), 6)


def test_choices():
    run = Run(BY_NAME["rich"])
    x0, theta = run.gradient(None)
    none, before = run.gradient([], np.ones(run.model.ntheta))
    assert (before == 1).all() and none.tobytes() == x0.tobytes()
    _, masses = run.gradient(["body_mass:1"])  # a part stands for its field
    assert run.model.param(masses, "body_mass").tobytes() == run.model.param(theta, "body_mass").tobytes()
    with pytest.raises(inside.Error, match="unknown parameter 'body_mas'.*body_mass"):
        run.gradient(["geom_size", "body_mas"])
    assert run.gradient(["body_mass"])[1].tobytes() == masses.tobytes()
    assert run.gradient(None)[1].tobytes() == theta.tobytes()


@pytest.mark.parametrize("constants", ["keep", "recompute"])
def test_program_writes_the_same_gradients(tmp_path, constants):
    """--wrt NAME,...: the bits of the gradient by everything, its steps checked, with what flows through derived constants."""
    path, names = BY_NAME["rich"], ["body_mass", "geom_solref", "body_pos", "gravity"]
    nv = inside.Model(path).nv
    np.savez(tmp_path / "bar.npz", qpos=np.linspace(-1, 1, nv), qvel=np.linspace(1, -2, nv))
    for name, wanted in (("all", []), ("few", ["--wrt", ",".join(names)])):
        done = subprocess.run([os.path.join(inside.build_dir(), "pullback"), "gradient", path, "--steps", "20", "--cotangent", tmp_path / "bar.npz",
                               "--constants", constants, *wanted, "-o", tmp_path / f"{name}.npz"], capture_output=True, text=True)
        assert done.returncode == 0 and "spot check" not in done.stderr, done.stderr
    with np.load(tmp_path / "all.npz") as everything, np.load(tmp_path / "few.npz") as few:
        for name in names:
            assert np.abs(few[f"param/{name}"]).max() > 0 and few[f"param/{name}"].tobytes() == everything[f"param/{name}"].tobytes()
        assert "param/body_inertia" in everything and "param/body_inertia" not in few
