"""The files of the estimators in `savable`."""

import pytest
from savable import MAKERS, fitted


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with what is saved of each estimator in the table."""
    folder = tmp_path_factory.mktemp("saved")
    for name in MAKERS:
        fitted(name).save(folder / name)
    return folder
