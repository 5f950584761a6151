"""One step agrees with MuJoCo to 1e-10 and a hundred to 1e-8, on every model, by every integrator, on random models."""
import concurrent.futures
import os
import tempfile
import zlib

import numpy as np
import pytest

import oracle
import inside
import random_models
import table


WITHOUT = {("dcmotor", "RK4"): "a dcmotor with activations"}  # refused, and by which words


@pytest.mark.parametrize("integrator", oracle.INTEGRATORS)
@pytest.mark.parametrize("path", oracle.MODELS, ids=oracle.name)
def test_steps_agree(path, integrator, long_run):
    refused = WITHOUT.get((oracle.name(path), integrator))
    if refused:
        assert refused in str(table.measure(path, {"integrator": integrator}, 0))
        return
    lines = [table.measure(path, {"integrator": integrator}, key) for key in range(4 if long_run else 1)]
    print("\n".join(map(str, lines)))
    assert all(line.holds for line in lines), "\n".join(map(str, lines))


def test_enough_is_compared():
    """What is left out stays an exception, and contacts are there."""
    left_out, contacts = [], 0
    for path in oracle.MODELS:
        m = oracle.load(path)
        x, controls = oracle.start(m, (oracle.name(path), "own", 0), table.STEPS)
        run = oracle.roll(m, x, controls)
        contacts += run.contacts > 0
        if oracle.trusted(m, x, controls, run, table.HUNDRED) < table.STEPS:
            left_out.append(oracle.name(path))
    print("left out:", *left_out)
    assert len(left_out) <= 3 and contacts > 0.6 * len(oracle.MODELS)


# Left out by name: MuJoCo's broad phase misses boxes 1 and 13, 0.4 mm inside their margin; the pair alone it finds as we do.
LEFT_OUT = {344}


def random_line(seed):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"random{seed}.xml")
        with open(path, "w") as f:
            f.write(random_models.xml(seed))
        return table.measure(path, key=seed)


def share(long_run):
    """(number of parts, which one): a quarter of the models; in continuous integration one half of these, by SEED."""
    if long_run:
        return 1, 0
    return (8, 4 * (zlib.crc32(os.environ.get("SEED", "").encode()) % 2)) if os.environ.get("PB_CI") else (4, 0)


def test_random_models(long_run):
    parts, part = share(long_run)
    seeds = [s for s in range(random_models.SEEDS) if s % parts == part and s not in LEFT_OUT]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        lines = list(pool.map(random_line, seeds, chunksize=10))
    whole = [line for line in lines if line.compared == line.steps]
    bad = [line for line in lines if not line.holds]
    touching = sum(line.contacts > 0 for line in lines)
    print(f"{len(lines) - len(bad)} of {len(lines)} random models agree, {len(whole)} over all {table.STEPS} steps, {touching} with contacts; "
          f"{random_models.SEEDS - len(seeds)} left to --long")
    print("\n".join(str(line) for line in lines if line.compared < line.steps))
    assert not bad, f"{len(bad)} fall short\n" + "\n".join(map(str, bad[:20]))
    few = {1: 0.834, 4: 0.8, 8: 0.7}[parts]  # an eighth is a small sample
    assert len(whole) >= few * len(lines) and touching > min(few, 0.8) * len(lines)


def test_resumed_run_is_the_same_to_the_bit():
    """The state vector holds everything: stopping and going on with a fresh scratch changes nothing."""
    for path in oracle.OWN:
        if oracle.name(path) not in ("joints", "condim_elliptic", "actuators", "humanoid62"):
            continue
        m, first, second = oracle.load(path), inside.Model(path), inside.Model(path)
        x, controls = oracle.start(m, (path, "resume"), 20)
        a = first.state(x.qpos, x.qvel, x.act)
        for k, u in enumerate(controls):
            if k == 10:
                b = a.copy()
            a, _ = first.step(a, u)
        for u in controls[10:]:
            b, _ = second.step(b, u)
        assert (a == b).all(), oracle.name(path)


def test_failed_step_leaves_the_state():
    """A state out of bounds is an error in words, and the state stays."""
    model = inside.Model(next(p for p in oracle.OWN if oracle.name(p) == "joints"))
    x = model.init()
    x[model.slots["qvel"]] = 1e200
    before = x.copy()
    with pytest.raises(inside.Error) as raised:
        inside.native.pbStep_Forward(model.ptr, model.theta, x, None, model._scratch(), None)
    assert raised.value.text == inside.native.pbScratch_Error(model.scratch).decode() != ""
    assert (x == before).all()


def test_stiff_cones_end_at_rounding(tmp_path):
    """Where the forces of stiff rows cancel, the residual never gets small: the solve ends when the acceleration stands still."""
    bodies = "".join(f'<body pos="0 0 {.1 + .2 * i}"><freejoint/><geom type="box" size=".1 .1 .1"/></body>' for i in range(3))
    path = tmp_path / "stiff.xml"
    path.write_text(f"""<mujoco><option cone="elliptic" impratio="10000"/>
        <default><geom solref=".004 1" solimp=".99999 .99999 .001"/></default>
        <worldbody><geom type="plane" size="5 5 .1"/>{bodies}</worldbody></mujoco>""")
    model, iterations, residuals = inside.Model(str(path)), [], []
    x = model.init()
    x[model.slots["qvel"]] = 0.3 * np.random.default_rng(3).standard_normal(model.nv)
    for _ in range(30):
        x, _ = model.step(x)
        iterations.append(model.report().iterations)
        residuals.append(model.report().residual)
    print("iterations", iterations, "worst residual %.1e" % max(residuals))
    assert max(iterations) < 70 and max(residuals) < 1e-6
