"""Which operators a cache takes: by name with options, or by its device."""

from dataclasses import replace

import attrs
import pytest
import torch

import tierkv
from tierkv import config as configuration
from tierkv.blueprint import choose_ops, settle
from tierkv.build import build
from tierkv.errors import ConfigError, say
from tierkv.ops import NATIVE, REFERENCE, Ops
from tierkv.testing.assemble import Shape
from tierkv.tiers import FileTier, HostTier

SIZES = {"lanes": 2, "max_tokens": 96}
SMALL = {"pool": {"slots": 16}, "backing": {"page": 16}, "policy": "fifo"}


@attrs.frozen
class Options:
    mode: str = "eager"
    cores: int = 4


class Swapped(HostTier):
    """Main memory, as some device's kernels want it."""


class Mine(Ops):
    Options = Options
    devices = ("cpu", "meta")
    variants = {"host": Swapped}  # noqa: RUF012 - as in the class

    def __init__(self, options, limits):
        super().__init__("mine", "tierkv_reference")
        if options.mode == "broken":
            raise ConfigError(say("ops.mode", "is not built", got=options.mode))
        self.options, self.limits = options, limits


@pytest.fixture
def registered(monkeypatch):
    """Give what adds operators to every registry that is made from now on."""
    added, make = [], configuration.make_registry

    def make_registry(block=()):
        registry = make(block)
        for name, ops in added:
            registry.add("ops", name, ops, "tierkv-mine 1.0")
        return registry

    monkeypatch.setattr(configuration, "make_registry", make_registry)
    return lambda name, ops: added.append((name, ops))


def read(ops=None, **settings):
    source = SMALL | ({"ops": ops} if ops is not None else {}) | settings
    return configuration.read(source, model=Shape().spec, **SIZES)


def on(device, ops=None):
    """Choose operators for a device that need not be here."""
    config = read(ops)
    limits = replace(settle(read("reference")).limits, device=torch.device(device))
    return choose_ops(config, limits)


# --- by name ---


@pytest.mark.parametrize("ops", ["reference", {"use": "reference"}])
def test_a_name_or_a_mapping(ops):
    assert settle(read(ops)).ops is REFERENCE


def test_options_and_limits_make_the_backend(registered):
    registered("mine", Mine)
    blueprint = settle(read({"use": "mine", "mode": "graph"}))
    assert blueprint.ops.options == Options("graph", 4)
    assert blueprint.ops.limits is blueprint.limits


@pytest.mark.parametrize(
    ("ops", "told"),
    [
        ({"use": "mine", "mod": "a"}, "ops: unknown key mod; known use, mode, cores .*mean mode"),
        ({"use": "mine", "cores": "4"}, "ops.cores: expected a whole number, got '4'"),
        ({"use": "mine", "mode": "broken"}, "ops.mode: is not built, got 'broken'"),
        ({"use": "min"}, "ops.use: unknown ops, got 'min'; known auto, mine, .*did you mean mine"),
        ("aut", "ops.use: unknown ops, got 'aut'; known auto, .*did you mean auto"),
        ({"use": "auto", "mode": "a"}, "ops: unknown key mode; known use"),
    ],
)
def test_faults_are_told_before_anything_is_allocated(registered, monkeypatch, ops, told):
    registered("mine", Mine)
    monkeypatch.setattr(HostTier, "allocate", lambda *_: pytest.fail("allocated"))
    with pytest.raises(ConfigError, match=f"^{told}"):
        build(read(ops))


def test_faults_of_operators_stand_beside_others(registered):
    registered("mine", Mine)
    config = read({"use": "mine", "mode": "broken"}, pool="file")
    with pytest.raises(ConfigError) as error:
        settle(config)
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == [
        "ops.mode", "pool.use",
    ]  # fmt: skip


def test_native_that_is_not_built(monkeypatch):
    monkeypatch.setattr("tierkv.core_plugin.NATIVE", None)
    told = r"ops.use: is not built here, got 'native'; known auto, reference \(see tierkv doctor\)"
    with pytest.raises(ConfigError, match=told):
        read("native")


def test_a_scheme_may_say_which_and_the_file_overrides_it(registered, monkeypatch):
    registered("mine", Mine)
    make = configuration.make_registry

    def make_registry(block=()):
        registry = make(block)
        registry.add("scheme", "mine", {"ops": {"use": "mine", "cores": 8}})
        return registry

    monkeypatch.setattr(configuration, "make_registry", make_registry)
    assert read(scheme="mine").ops.options == Options("eager", 8)
    assert read({"mode": "graph"}, scheme="mine").ops.options == Options("graph", 8)
    assert read("auto", scheme="mine").ops.name == "auto"


# --- by device ---


def test_auto_takes_the_first_that_names_the_device(registered):
    registered("any", Ops("any", "tierkv_reference"))  # it must be named
    registered("mine", Mine)
    registered("late", Ops("late", "tierkv_reference", devices=("meta",)))
    assert on("meta").name == "mine"
    assert on("meta").options == Options()
    assert on("cpu").name == ("mine" if NATIVE is None else "native")
    assert on("cuda") is REFERENCE


@pytest.mark.skipif(NATIVE is None, reason="installed without a compiler")
def test_native_is_for_cpu(registered):
    registered("mine", Mine)
    assert on("cpu") is NATIVE
    told = "^ops.use: runs on cpu, but device is cuda, got 'native'; known auto, reference$"
    with pytest.raises(ConfigError, match=told):
        on("cuda", "native")


def test_a_backend_for_another_device_says_which(registered):
    registered("mine", Ops("mine", "tierkv_reference", devices=("npu", "xpu")))
    with pytest.raises(
        ConfigError, match=r"^ops.use: runs on npu, xpu, but device is cpu, got 'mi"
    ):
        settle(read("mine"))


def test_reference_runs_anywhere():
    assert on("meta", "reference") is REFERENCE


def test_a_device_that_torch_does_not_know_but_operators_do(registered):
    registered("mine", Ops("mine", "tierkv_reference", devices=("npu",)))
    with pytest.raises(ConfigError, match=r"^device: unknown device.*import its extension"):
        settle(read(device="npu:0"))
    with pytest.raises(ConfigError, match=r"^device: unknown device(?!.*extension)"):
        settle(read(device="gpu"))


# --- tiers that stand in for others ---


@pytest.mark.parametrize("section", ["backing", "pool"])
def test_a_variant_stands_in_for_a_tier(registered, section):
    registered("mine", Mine)
    config = read("mine", **{section: SMALL[section] | {"use": "host"}})
    with build(config) as cache:
        assert type(getattr(cache.site, section)) is Swapped
    with build(read("reference", **{section: SMALL[section] | {"use": "host"}})) as cache:
        assert type(getattr(cache.site, section)) is HostTier


def test_other_tiers_are_themselves(registered):
    registered("mine", Mine)
    with build(read("mine", backing={"use": "file", "page": 16})) as cache:
        assert type(cache.site.backing) is FileTier


def test_it_runs(registered):
    registered("mine", Mine)
    with tierkv.load(SMALL | {"ops": "mine"}, model=Shape().spec, **SIZES) as cache:
        assert cache.site.ops.name == "mine"
        lane = cache.admit("request")
        data = torch.arange(40 * 64).to(torch.uint8).view(40, 64)
        for layer in range(3):
            cache.prefill("request", layer, data)
        with cache.step([lane], [41]) as step:
            for layer in range(3):
                step.append(layer, torch.zeros((1, 1, 64), dtype=torch.uint8))
                ids = torch.tensor([[[3, 1, 4, 15, 9, 2]]], dtype=torch.int32)
                kv = step.select(layer, None if layer == 2 else ids)
                assert torch.equal(kv.records[0, 0], data[[3, 1, 4, 15, 9, 2]])
