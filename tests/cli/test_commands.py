"""The command itself, ``check`` and ``plugins``."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tierkv

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCHEME = "scheme: glm52-indexshare\n"


def process(*arguments):
    code = "from tierkv.cli.main import main; main(prog_name='tierkv')"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            (["chekc"], ("No such command 'chekc'", "--help")),
            (["check"], ("check: Missing argument 'CONFIG'", "--help")),
            (["check", "a", "b"], ("unexpected extra argument",)),
            (["run", "--contxt", "3"], ("run: ", "'--contxt'", "'--context'")),
            (["run", "--context", "0"], ("run: ", "0", "x>=1")),
            (["run", "--tokens", "many"], ("run: ", "'many'")),
        ],
    )
    def test_a_fault_is_one_line(self, invoke, arguments, parts):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        for part in parts:
            assert part in line

    def test_alone_it_shows_its_help(self, invoke):
        result = invoke()
        assert result.exit_code == 2
        assert "Usage:" in result.output

    def test_help_and_version(self, invoke):
        help_text = invoke("--help").output
        for command in ("run", "check", "plugins", "doctor"):
            assert f"\n  {command} " in help_text
            assert "--json" in invoke(command, "-h").output
        assert tierkv.__version__ in invoke("--version").output

    def test_help_does_not_import_torch(self):
        code = (
            "import sys\n"
            "from tierkv.cli.main import main\n"
            "try:\n    main(['--help'])\n"
            "finally:\n    assert not {'torch', 'rich', 'yaml', 'pluggy'} & set(sys.modules)"
        )
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
        assert time.monotonic() - start < 2  # 0.1 s on an idle machine; torch alone takes longer

    def test_an_interrupt_is_no_traceback(self, invoke, monkeypatch):
        def interrupted(block=()):
            raise KeyboardInterrupt

        monkeypatch.setattr("tierkv.config.make_registry", interrupted)
        result = invoke("plugins")
        assert result.exit_code == 130
        assert result.stderr.strip() == "tierkv: interrupted"


class TestCheck:
    def test_it_says_what_is_then_allocated(self, invoke):
        path = EXAMPLES / "glm52.yaml"
        report = json.loads(invoke("check", path, "--json").output)
        with tierkv.load(path) as cache:
            site, told = cache.site, report["bytes"]
            layers = range(report["model"]["layers"])
            assert told["pool"] == sum(site.pool.view(layer).nbytes for layer in layers)
            assert told["backing"] == sum(site.backing.view(layer).nbytes for layer in layers)
            tables = [table.nbytes for policy in site.policies for table in policy.tables]
            assert told["tables"] == sum(tables)
            parts = [part.nbytes for layer in cache.store.device for part in layer.values()]
            assert told["device_parts"] == sum(parts)
            assert report["slots"] == [policy.slots for policy in site.policies]
            assert report["tokens"] == cache.limits.rows
            assert report["components"]["policy"] == "set-fifo"

    def test_people_get_words(self, invoke):
        result = invoke("check", EXAMPLES / "glm52.yaml")
        assert result.exit_code == 0
        assert result.stderr == ""
        lines = result.output.splitlines()
        assert lines[-1] == f"{EXAMPLES / 'glm52.yaml'}: good"
        assert "12 layers in 5 groups" in lines[0]

    def test_real_sizes(self, invoke):
        report = json.loads(invoke("check", EXAMPLES / "glm52_a3.yaml", "--json").output)
        assert report["model"] == {
            "name": "glm_moe_dsa",
            "layers": 78,
            "groups": 21,
            "top_k": 2048,
            "record_bytes": [1152],
        }
        assert report["bytes"]["pool"] == 4 * 16_384 * 78 * 1152
        assert report["tokens"] == 4 * 67_584
        assert report["bytes"]["backing"] == report["tokens"] * 78 * 1152

    def test_what_this_machine_lacks_is_said(self, invoke, tmp_path):
        (tmp_path / "big.yaml").write_text(f"{SCHEME}lanes: 30000\n")
        result = invoke("check", tmp_path / "big.yaml")
        assert result.exit_code == 0
        assert "but not on this machine: backing.capacity" in result.output

    def test_it_needs_no_transformers(self):
        code = (
            "import sys\n"
            "sys.modules['transformers'] = None\n"
            "from tierkv.cli.main import main\n"
            "main(['check', 'examples/glm52.yaml'])"
        )
        done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT)
        assert done.returncode == 0

    def test_the_schemes_differ_by_one_line(self):
        one, other = (
            (EXAMPLES / name).read_text().splitlines() for name in ("glm52.yaml", "dsv32.yaml")
        )
        changed = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        assert changed == [("scheme: glm52-indexshare", "scheme: dsv32-gather")]


class TestPlugins:
    def test_what_is_installed(self, invoke):
        result = invoke("plugins", "--json")
        assert result.exit_code == 0
        report = json.loads(result.output)
        plugins = {plugin["name"]: plugin for plugin in report["plugins"]}
        assert {"tierkv", "glm52-indexshare", "dsv32-gather"} <= set(plugins)
        core, glm = plugins["tierkv"], plugins["glm52-indexshare"]
        assert core["version"] == tierkv.__version__
        assert {"kind": "policy", "name": "lru"} in core["registers"]
        assert not core["models"]
        assert glm["distribution"] == "tierkv-glm52-indexshare"
        assert {"kind": "scheme", "name": "glm52-indexshare"} in glm["registers"]
        assert glm["models"]
        assert report["broken"] == report["blocked"] == []

    def test_people_get_a_table(self, invoke):
        result = invoke("plugins")
        assert result.exit_code == 0
        assert "scheme glm52-indexshare" in result.output

    def test_a_broken_one_is_named_with_reason_and_remedy(self, invoke, distribution):
        distribution("broken-one", "import no_such_module")
        result = invoke("plugins")
        assert result.exit_code == 1
        line = result.output.splitlines()[-1]
        assert line.startswith("broken: plugin broken-one (broken-one 1.0): does not load, ")
        assert "no_such_module" in line
        assert "reinstall broken-one 1.0" in line
        report = json.loads(invoke("plugins", "--json").output)
        assert [broken["name"] for broken in report["broken"]] == ["broken-one"]

    def test_a_blocked_one_is_not_imported(self, invoke, distribution, tmp_path):
        distribution("broken-one", "import no_such_module")
        (tmp_path / "block.yaml").write_text("plugins: {block: [broken-one]}")
        result = invoke("plugins", tmp_path / "block.yaml")
        assert result.exit_code == 0
        assert result.output.splitlines()[-1] == "blocked: broken-one"

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            ("registry.add('policy', 'lru', Mine)", "policy lru: is registered by tierkv "),
            ("registry.add('polizy', 'mine', Mine)", "unknown kind, got 'polizy'"),
            ("registry.add('policy', 'mine', 3)", "must be a class derived from tierkv.Policy"),
            ("registry.add('tier', 'mine', Mine)", "must be a class derived from tierkv.Tier"),
            ("registry.add('tier', 'mine', Half)", "Half does not implement allocate, "),
            ("registry.add('scheme', 'mine', [])", "must be of type Mapping"),
        ],
    )
    def test_a_wrong_component_breaks_its_plugin_alone(self, invoke, distribution, code, why):
        distribution(
            "wrong-one",
            f"""
            import tierkv
            class Mine(tierkv.TablePolicy): ...
            class Half(tierkv.Tier): ...
            @tierkv.hookimpl
            def tierkv_register(registry):
                {code}
            """,
        )
        result = invoke("plugins")
        assert result.exit_code == 1
        assert why in result.output.splitlines()[-1]
        assert "plugin wrong-one (wrong-one 1.0)" in result.output

    def test_a_plugin_that_fails_on_a_model_is_named(self, invoke, distribution, tmp_path):
        distribution(
            "wrong-one",
            """
            import tierkv
            @tierkv.hookimpl
            def tierkv_model(model_config):
                return model_config["no such key"]
            """,
        )
        (tmp_path / "any.yaml").write_text(SCHEME)
        result = invoke("check", tmp_path / "any.yaml")
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert "plugin wrong-one (wrong-one 1.0) failed on it, KeyError('no such key')" in line


def test_in_a_process_of_its_own(tmp_path):
    good = process("check", "examples/glm52.yaml", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    json.loads(good.stdout)
    (tmp_path / "bad.yaml").write_text("lanez: 3")
    bad = process("check", tmp_path / "bad.yaml")
    assert (bad.returncode, bad.stdout, len(bad.stderr.splitlines())) == (2, "", 1)


OPERATORS = """
    import attrs
    from tierkv import hookimpl
    from tierkv.ops import Ops

    @attrs.frozen
    class Options:
        mode: str = "eager"

    class Mine(Ops):
        Options = Options

        def __init__(self, options, limits):
            super().__init__(f"mine in mode {options.mode}", "tierkv_reference")

    @hookimpl
    def tierkv_register(registry):
        registry.add("ops", "mine", Mine)
"""


def test_operators_with_options(invoke, distribution, nothing_allocated, tmp_path):
    distribution("tierkv-mine", OPERATORS)
    path = tmp_path / "mine.yaml"
    path.write_text(f"{SCHEME}ops: {{use: mine, mode: graph}}")
    assert json.loads(invoke("check", path, "--json").output)["ops"] == "mine in mode graph"
    assert "ops mine" in invoke("plugins").output
