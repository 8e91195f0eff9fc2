import pytest

from experiments.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "rows.sqlite")
