"""What is measured uses all threads that OMP_NUM_THREADS allows, where other tests have one."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Leave torch its threads."""
