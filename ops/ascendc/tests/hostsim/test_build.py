from pathlib import Path

import pytest
from hostsim import NoCompilerError, build

OPS = Path(__file__).parent / "ops"


@pytest.fixture
def broken(tmp_path):
    folder = tmp_path / "broken" / "op_kernel"
    folder.mkdir(parents=True)
    (folder / "broken.cpp").write_text('#error "this is broken"\n')
    host = tmp_path / "broken" / "op_host"
    host.mkdir()
    (host / "broken_tiling.h").write_text("\n")
    return build.Operator("broken", tmp_path)


def test_without_a_compiler(monkeypatch, sim):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    build.compiler.cache_clear()
    try:
        with pytest.raises(NoCompilerError, match="no C\\+\\+ compiler"):
            build.model()
        with pytest.raises(pytest.skip.Exception, match="no C\\+\\+ compiler"):
            sim("any_operator")
    finally:
        build.compiler.cache_clear()


def test_mistakes_are_shown(sim, broken):
    sim("example", OPS)  # skips without a compiler
    with pytest.raises(RuntimeError, match=r"broken-kernel does not compile:[\s\S]*this is broken"):
        build.kernel(broken)


def test_compiled_once(sim):
    sim("example", OPS)
    first = build.model()
    assert build.model() == first
    assert first.parent == build.BUILD / "hostsim"


def test_names(broken):
    assert broken.op_type == "Broken"
    assert build.Operator("gather_selection_plan", broken.source).op_type == "GatherSelectionPlan"


def test_constants():
    text = build.constants().read_text()
    assert "constexpr int kMaxTopK = 2048;" in text
    assert "constexpr int kKindRepeat = 3;" in text
