"""What a user writes, for `mypy --strict` (test_package.py); it also runs."""
import sys

import numpy as np
import numpy.typing as npt

import pullback as pb


def reach(model: pb.Model, ctrl: npt.NDArray[np.float64], mass: npt.NDArray[np.float64]) -> tuple[float, pb.Gradient]:
    """Where the first coordinate comes, and its gradient."""
    start: pb.State = model.init(batch=2)
    with model.rollout(start, ctrl, params={"body_mass": mass}, outputs="sensordata", threads=1) as r:
        bar = np.zeros((2, model.nv))
        bar[:, 0] = 1
        return float(r.qpos[:, -1, 0].sum()), r.vjp(qpos=bar, wrt=["ctrl", "body_mass"])


def main(path: str) -> None:
    model = pb.load(path, options={"tolerance": 1e-9}, contact={"method": "soft"})
    names: tuple[str, ...] = model.tangent_names
    slot: slice = model.joint(0).qpos
    unit: str = model.params.about("body_mass").unit
    value, g = reach(model, np.zeros((5, model.nu)), np.array(model.params["body_mass"]))
    total: float = float(g.ctrl.sum() + g.params["body_mass"].sum() + g.qpos.sum())
    s = model.init()
    model.step_into(s, np.zeros(model.nu))
    A, B = model.linearize(s, None)
    try:
        model.with_params({"body_mass": 1.2 * model.params["body_mass"]}).step(s)
    except pb.StepError as error:
        print(error.world, error.step, error.reason)
    print(len(names), slot.start, unit, value, total, A.shape, B.shape, s.qpos.shape, pb.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
