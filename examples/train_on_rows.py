"""Train a small model on random rows of an Arrow file with torch's DataLoader and two workers.

python train_on_rows.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, default_convert

import arrowipc as ipc

WEIGHTS = np.array([2.0, -1.0, 0.5], np.float32)


def as_it_is(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Send arrays unchanged: a tensor of a worker would go through a file in shared memory."""
    return batch


def make_file(path: Path) -> None:
    """Write 20 batches of 500 rows."""
    chance = np.random.default_rng(1)
    schema = ipc.schema({"features": ipc.types.list_("float"), "target": "float"})
    with ipc.new_file(path, schema) as writer:
        for _ in range(20):
            features = chance.normal(size=(500, 3)).astype(np.float32)
            writer.write({"features": features.tolist(), "target": features @ WEIGHTS})


def main() -> None:
    """Fit a line in two epochs, each with another order of rows."""
    path = Path(tempfile.mkdtemp()) / "rows.arrow"
    make_file(path)
    rows = ipc.RowDataset(path, columns=["features", "target"], format="numpy")
    print(len(rows), "rows, one of them:", rows[7]["features"].shape, rows[7]["target"].dtype)

    torch.manual_seed(1)
    loader = DataLoader(rows, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=as_it_is)
    model = torch.nn.Linear(rows[0]["features"].shape[0], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in map(default_convert, loader):
            loss = torch.nn.functional.mse_loss(model(batch["features"]).squeeze(1), batch["target"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}")
    print("weights:", [round(weight, 2) for weight in model.weight[0].tolist()])


if __name__ == "__main__":
    main()
