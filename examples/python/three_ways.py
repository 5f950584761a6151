"""One gradient by NumPy, PyTorch and JAX: equal to 1e-12 once the part along quaternions, which has no effect, is projected out."""
import os

import numpy as np

import pullback as pb

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    import jax
    import torch

    import pullback.jax
    import pullback.torch
    jax.config.update("jax_enable_x64", True)
    model = pb.load(os.path.join(HERE, "..", "quadruped", "quadruped.xml"))
    s, rng = model.init(), np.random.default_rng(0)
    ctrl, mass = .2 * rng.normal(size=(40, model.nu)), np.array(model.params["body_mass"])
    by_place, by_speed = rng.normal(size=model.nq), rng.normal(size=model.nv)

    # A linear loss of the last state. NumPy differentiates in the tangent space, the others by the numbers of qpos.
    r = model.rollout(s, ctrl, params={"body_mass": mass})
    g = r.vjp(qpos=model.to_tangent(r.final, by_place), qvel=by_speed)
    leaves = [torch.tensor(np.array(a), requires_grad=True) for a in (s.qpos, s.qvel, ctrl, mass)]
    qpos, qvel, _ = pb.torch.rollout(model, *leaves[:3], params={"body_mass": leaves[3]})
    (qpos[-1] @ torch.tensor(by_place) + qvel[-1] @ torch.tensor(by_speed)).backward()

    def loss(*given):
        qpos, qvel, _ = pb.jax.rollout(model, *given[:3], params={"body_mass": given[3]})
        return qpos[-1] @ by_place + qvel[-1] @ by_speed
    by_jax = jax.grad(loss, argnums=(0, 1, 2, 3))(s.qpos, s.qvel, ctrl, mass)

    worst = 0
    for other in ([leaf.grad.numpy() for leaf in leaves], [np.asarray(a) for a in by_jax]):
        found = (model.to_tangent(s, other[0]), *other[1:])
        for a, b in zip(found, (g.qpos, g.qvel, g.ctrl, g.params["body_mass"])):
            worst = max(worst, np.abs(a - b).max() / max(1, np.abs(b).max()))
    print(f"gradients by NumPy, PyTorch and JAX differ by {worst:.1e}")
    assert worst < 1e-12
    return worst


if __name__ == "__main__":
    main()
