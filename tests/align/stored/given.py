"""What TRL's PPO was run with, and where its outputs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "ppo.npz"

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "k3-penalty": {"kl_estimator": "k3", "missing_eos_penalty": 1.5, "gamma": 0.9},
    "whitened": {"whiten_rewards": True, "lam": 0.5, "kl_coef": 0.3},
    "clipped": {"cliprange": 0.01, "cliprange_value": 0.02, "vf_coef": 0.7},
}
"""What differs from the defaults of both."""
