"""From the switches of the published CANN sample to a configuration that can be read."""

import json

import pytest
import yaml

from tierkv import config as configuration

BACKEND = """
    import attrs
    from tierkv import hookimpl
    from tierkv.ops import Ops

    @attrs.frozen
    class Options:
        mode: str = "eager"

    class Ascendc(Ops):
        Options = Options
        devices = ("npu",)

    @hookimpl
    def tierkv_register(registry):
        registry.add("ops", "ascendc", Ascendc)
"""
# As published, in the newer and in the older form.
GLM = """
model_name: "GLM-5.2"
exe_mode: "npugraph_ex"                  # mode of decode
world_size: 32
model_config:
  enable_offload: True
  shared_indexer_offload: True
  enlarge_pool_size: True
  next_n: 3
  pa_block_size: 256
  enable_weight_nz: True
parallel_config:
  attn_tp_size: 1
"""
DEEPSEEK = """
model_config:
  model_name: "deepseek_v3_2_exp"
  exe_mode: "ge_graph"
  next_n: 1
  custom_params:
    enable_multi_streams: True
    enable_offload: True
scheduler_config:
  block_size: 128
"""


@pytest.fixture
def migrate(invoke, tmp_path):
    """Translate a text: what is written, and as JSON."""

    def run(text, *arguments):
        path = tmp_path / "sample.yaml"
        path.write_text(text)
        return invoke("migrate", path, *arguments)

    return run


@pytest.fixture
def translated(migrate):
    def run(text):
        result = migrate(text, "--json")
        assert result.exit_code == 0, result.stderr
        report = json.loads(result.stdout)
        assert yaml.safe_load(migrate(text).stdout) == report["config"]
        return report

    return run


@pytest.mark.parametrize(("text", "mode"), [(GLM, "npugraph_ex"), (DEEPSEEK, "ge_graph")])
def test_the_result_can_be_read(migrate, distribution, tmp_path, text, mode):
    distribution("ascendc", BACKEND)
    path = tmp_path / "tierkv.yaml"
    result = migrate(text, "-o", path)
    assert (result.exit_code, result.output) == (0, "")
    read = configuration.read(path)
    assert (read.ops.name, read.ops.options.mode) == ("ascendc", mode)
    assert read.general.device == "npu"


def test_without_the_plugin_it_says_what_to_install(migrate, invoke, tmp_path):
    path = tmp_path / "tierkv.yaml"
    migrate(GLM, "-o", path)
    result = invoke("check", path)
    assert result.exit_code == 2
    assert "pip install tierkv-ascendc" in result.stderr


def test_glm(translated):
    assert translated(GLM)["config"] == {
        "scheme": "glm52-indexshare",
        "queries": 4,
        "backing": {"use": "host", "page": 256},
        "pool": {"slots": 16384},
        "installer": {"schedule": "side-stream"},
        "device": "npu",
        "ops": {"use": "ascendc", "mode": "npugraph_ex"},
        "plugins": {"require": ["glm52-indexshare", "ascendc"]},
    }


def test_deepseek(translated):
    assert translated(DEEPSEEK)["config"] == {
        "scheme": "dsv32-gather",
        "queries": 2,
        "backing": {"use": "host", "page": 128},
        "device": "npu",
        "ops": {"use": "ascendc", "mode": "ge_graph"},
        "plugins": {"require": ["dsv32-gather", "ascendc"]},
    }


@pytest.mark.parametrize(
    ("switch", "key", "value"),
    [
        ("enable_offload: true", "backing", {"use": "host", "page": 128}),
        ("enable_offload: false", "backing", {"use": "device", "page": 128}),
        ("shared_indexer_offload: true", "scheme", "glm52-indexshare"),
        ("shared_indexer_offload: false", "scheme", "dsv32-gather"),
        ("{shared_indexer_offload: true, enlarge_pool_size: false}", "pool", {"slots": 8192}),
        ("{shared_indexer_offload: true, enlarge_pool_size: true}", "pool", {"slots": 16384}),
        *((f"next_n: {number}", "queries", 1 + number) for number in range(4)),
        ("pa_block_size: 128", "backing", {"use": "device", "page": 128}),
        ("pa_block_size: 256", "backing", {"use": "device", "page": 256}),
        *((f"exe_mode: {mode}", "ops", {"use": "ascendc", "mode": mode})
          for mode in ("eager", "npugraph_ex", "ge_graph")),
        ("enable_mtp_gather_reuse: true", "queries", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nest", ["{}", "model_config: {{{}}}", "a: [{{b: {{{}}}}}]"])
def test_each_switch_wherever_it_stands(translated, switch, key, value, nest):
    text = nest.format(switch if nest == "{}" else switch.strip("{}"))
    assert translated(text)["config"][key] == value


def test_each_line_is_explained(migrate, translated):
    lines = migrate(GLM).stdout.splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert lines[number - 1].startswith("# "), line
    origins = {line["key"]: line["from"] for line in translated(DEEPSEEK)["lines"]}
    assert origins["queries"] == ["model_config.next_n: 1"]
    assert origins["backing"] == [
        "model_config.custom_params.enable_offload: True", "pa_block_size: 128 by default",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("enable_mtp_gather_reuse: true", "in draft steps call step.reuse(layer)"),
        ("enable_mtp_gather_reuse: false", "in draft steps call step.select"),
        ("enlarge_pool_size: true", "without shared_indexer_offload there is no pool"),
        ("next_n: 0", "model: pass the model's own configuration"),
    ],
)
def test_what_has_no_line_is_told(migrate, translated, text, note):
    assert any(note in told for told in translated(text)["notes"])
    assert f"{note}" in migrate(text).stdout


def test_keys_that_are_not_understood_are_listed(migrate, translated):
    assert translated(GLM)["unknown"] == [
        "model_name", "world_size", "model_config.enable_weight_nz", "parallel_config.attn_tp_size",
    ]  # fmt: skip
    told = migrate(GLM).stdout
    assert "# not understood, left out:\n#   model_name\n#   world_size\n" in told
    assert "not understood" not in migrate("next_n: 0").stdout


def test_a_key_cannot_leave_its_comment(translated):
    report = translated('next_n: 0\n"a\\nlanes: 3": 1')
    assert report["unknown"] == [r"'a\nlanes: 3'"]
    assert "lanes" not in report["config"]


def test_aliases_do_not_explode(translated):
    lines = ["a0: &a0 {next_n: 1}"]
    tens = {i: ", ".join([f"{{b: *a{i - 1}}}"] * 10) for i in range(1, 12)}
    lines += [f"a{i}: &a{i} [{ten}]" for i, ten in tens.items()]
    assert translated("\n".join(lines))["config"]["queries"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("next_n: 4", ["next_n: must be 0 to 3, got 4"]),
        ("model_config: {next_n: -1}", ["model_config.next_n: must be 0 to 3, got -1"]),
        ("next_n: true", ["next_n: expected a whole number, got True"]),
        ("next_n: {a: 1}", ["next_n: expected a whole number, got {'a': 1}"]),
        ("pa_block_size: 64", ["pa_block_size: unknown size, got 64; known 128, 256"]),
        ("exe_mode: acl_graph", ["exe_mode: unknown mode, got 'acl_graph'; known eager, "]),
        ("exe_mode: ge_grap", ["did you mean ge_graph?"]),
        ("enable_offload: 1", ["enable_offload: expected true or false, got 1"]),
        ("enable_offload: 'no'", ["enable_offload: expected true or false, got 'no'"]),
        ("next_n: 9\na: {exe_mode: x}", ["next_n: must be", "a.exe_mode: unknown mode"]),
        ("next_n: 1\na: {next_n: 2}", ["a.next_n: stands in next_n too, as 1, got 2"]),
        ("lanes: 3", ["sample.yaml: has none of the sample's switches; known enable_offload, "]),
        ("", ["sample.yaml: must hold a mapping"]),
        ("- 1", ["sample.yaml: must hold a mapping"]),
        ("{{{", ["sample.yaml:1: is not YAML"]),
        ("next_n: 1\nnext_n: 1", ["sample.yaml:2: key 'next_n' stands twice"]),
    ],
)
def test_bad_input_is_a_line_a_fault(migrate, text, told):
    result = migrate(text)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == len(told), lines
    for line, part in zip(lines, told, strict=True):
        assert part in line


def test_the_same_switch_twice_with_one_value_is_fine(translated):
    assert translated("next_n: 1\na: {next_n: 1}")["config"]["queries"] == 2


def test_files_that_cannot_be_had(invoke, migrate, tmp_path):
    result = invoke("migrate", tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert "none.yaml: cannot be read: No such file" in result.stderr
    result = migrate("next_n: 1", "-o", tmp_path / "none" / "out.yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith("--output: cannot be written, No such file")
