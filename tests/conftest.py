from __future__ import annotations

import os
import re
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy comes: the suite runs one process per core

import numpy as np
import pytest

TOGETHER = {  # files and functions whose tests share a browser, processes, or fits that take long
    "test_alignment.py": "processes",
    "test_channel_baselines.py": "channels",
    "test_cli.py": "command line",
    "test_imkpl_classifier.py": "prototypes",
    "test_l0_estimators.py": "l0",
    "test_plots.py": "plots",
    "test_report.py": "report",
    "test_report_browser.py": "report",
    "test_search.py": "search",
    "test_workflow.py": "processes",
    "test_same_seed_same_result_whatever_the_number_of_jobs": "processes",
    "test_several_classes_variants_and_jobs": "processes",
    "test_the_same_in_two_processes": "processes",
}
BY_ESTIMATOR = ("test_estimators.py", "test_model_files.py")  # here the tests of an estimator share its fits


def scope(test):
    """What one process runs, so that all that is shared is made once: a file, an estimator or one function."""
    file, function = test.split("::")[0].rpartition("/")[2], test.split("[")[0]
    group = TOGETHER.get(file) or TOGETHER.get(function.rpartition("::")[2])
    estimator = re.search(r"\[.*?\b([A-Z]\w+)", test) if file in BY_ESTIMATOR else None
    return group or (estimator[1] if estimator else function)


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xdist_group(scope(item.nodeid)))


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
