import pytest
from click.testing import CliRunner

from tierkv.cli.main import main


@pytest.fixture
def invoke():
    """Run ``tierkv`` with these arguments in this process."""

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
