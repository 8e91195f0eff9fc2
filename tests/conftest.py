from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy comes: the suite runs one process per core

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_folder():
    path = os.environ.get("TAMIS_DATA")
    if not path or not Path(path).is_dir():
        pytest.skip("TAMIS_DATA does not name a folder of datasets")
    return Path(path)


@pytest.fixture(scope="session")
def cancer():
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True, as_frame=True)
