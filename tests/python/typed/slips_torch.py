"""The same of pullback.torch and pullback.gym, for `mypy --strict` and pyright (test_types.py). It never runs."""
import torch

import pullback as pb
import pullback.torch

model = pb.load("model.xml")
qpos, qvel, act = pb.torch.rollout(model, torch.zeros(3), torch.zeros(3), steps=5, gradient="event")
total: torch.Tensor = qpos.sum() + qvel.sum() + act.sum()
after: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = pb.torch.step(model, torch.zeros(3), torch.zeros(3), params={"body_mass": torch.ones(3)})
simulator = pb.torch.Simulator(model, ["body_mass"])
simulator.step(torch.zeros(3), torch.zeros(3), threads=1)

pb.torch.rollout(model, torch.zeros(3), torch.zeros(3), step=5)  # slip
pb.torch.rollout(model, torch.zeros(3), steps=5)  # slip
pb.torch.rollout(model, torch.zeros(3), torch.zeros(3), steps=5).shape  # slip
pb.torch.step(model, torch.zeros(3), torch.zeros(3), gradient="excat")  # slip
simulator.step(torch.zeros(3), torch.zeros(3), thread=1)  # slip
pb.torch.rolout(model)  # slip
