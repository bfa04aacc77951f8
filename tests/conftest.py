"""One thread, the same examples every time, and the command line in this process."""

import pytest
import torch
from click.testing import CliRunner
from hypothesis import settings

from tierkv.cli.main import main

torch.set_num_threads(1)
settings.register_profile("tierkv", derandomize=True, deadline=None, database=None)
settings.load_profile("tierkv")


@pytest.fixture
def invoke():
    """Run ``tierkv`` with these arguments in this process."""

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
