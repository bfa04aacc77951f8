"""Run pytest with another build of the native module: ``run_sanitized.py MODULE ARGUMENTS...``.

It is put in place before anything imports the installed one.
"""

import importlib.util
import sys

import pytest

module, *arguments = sys.argv[1:]
spec = importlib.util.spec_from_file_location("tierkv._native", module)
if spec is None or spec.loader is None:
    raise SystemExit(f"{module}: not an extension module")
native = importlib.util.module_from_spec(spec)
sys.modules["tierkv._native"] = native
spec.loader.exec_module(native)
sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
