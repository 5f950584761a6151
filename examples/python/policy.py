"""A pole on a cart is swung up and held by a small network that PyTorch trains through the simulator: 256 weights, no reward but a cost."""
import os

import numpy as np
import torch

import pullback as pb
import pullback.torch

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS, STEPS, UPDATES = 16, 60, 60


def observe(qpos, qvel):
    return torch.cat([qpos[:, :1], torch.sin(qpos[:, 1:]), torch.cos(qpos[:, 1:]), .3 * qvel], dim=1)


def run(model, net, qpos, qvel):
    """Mean cost of STEPS decisions, each held for four steps."""
    cost = 0.
    for _ in range(STEPS):
        ctrl = 3 * torch.tanh(net(observe(qpos, qvel)))
        q, v, _ = pb.torch.rollout(model, qpos, qvel, ctrl[:, None].expand(-1, 4, -1))
        qpos, qvel = q[:, -1], v[:, -1]
        cost = cost + (1 - torch.cos(qpos[:, 1])).mean() + .05 * qpos[:, 0].square().mean() + 1e-3 * ctrl.square().mean() + .01 * qvel.square().mean()
    return cost / STEPS


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = pb.load(os.path.join(HERE, "..", "cartpole", "cartpole.xml"))
    net = torch.nn.Sequential(torch.nn.Linear(3 + model.nv, 32), torch.nn.Tanh(), torch.nn.Linear(32, model.nu)).double()
    best = torch.optim.Adam(net.parameters(), 1e-2)
    start = lambda: (torch.tensor(np.tile(model.init().qpos, (WORLDS, 1))) + .3 * torch.randn(WORLDS, model.nq, dtype=torch.float64),
                     .3 * torch.randn(WORLDS, model.nv, dtype=torch.float64))
    test = start()
    first = run(model, net, *test).item()
    for _ in range(UPDATES):
        best.zero_grad()
        run(model, net, *start()).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.)
        best.step()
    last = run(model, net, *test).item()
    print(f"cost {first:.4f} before, {last:.4f} after {UPDATES} updates of {WORLDS} worlds")
    assert last < .5 * first
    return last / first


if __name__ == "__main__":
    main()
