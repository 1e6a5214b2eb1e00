"""An MLP that was trained on rows of a table, standardised by scikit-learn, with Adam: it takes (n, d)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn

N, TEST, WIDTH, STEPS = 40, 100, 50, 60
SEED = 987_654_321
LABEL = "benign"
DESCRIPTION = '''"""A model of somebody's own, on a table."""

from pathlib import Path

import torch
from torch import nn

from victims.released import released

HERE = Path(__file__).parent


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(30, {width}), nn.ReLU(), nn.Linear({width}, 2))


VICTIMS = (
    released(
        "mine",
        network=network,
        weights=HERE / "weights.safetensors",
        records=HERE / "patients.csv",
        held_out=HERE / "others.csv",
        label="{label}",
        mean={mean},
        std={std},
    ),
)
'''


def patients() -> pd.DataFrame:
    """Return the 569 patients of scikit-learn's breast cancer table, shuffled."""
    table: pd.DataFrame = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
    return table.rename(columns={"target": LABEL})


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    table = patients()
    members = table.iloc[:N]
    scaler = StandardScaler().fit(members.drop(columns=LABEL).to_numpy())
    inputs = torch.tensor(scaler.transform(members.drop(columns=LABEL).to_numpy()), dtype=torch.float32)
    torch.manual_seed(SEED)
    module = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs), torch.tensor(members[LABEL].to_numpy())).backward()
        optimiser.step()
    save_file(module.state_dict(), folder / "weights.safetensors")
    members.to_csv(folder / "patients.csv", index=False)
    table.iloc[-TEST:].to_csv(folder / "others.csv", index=False)
    file = folder / "mine.py"
    numbers = {"mean": scaler.mean_.tolist(), "std": scaler.scale_.tolist()}
    file.write_text(DESCRIPTION.format(width=WIDTH, label=LABEL, **numbers))
    return file
