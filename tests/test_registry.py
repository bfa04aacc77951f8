"""Plugins from their entry points: found, loaded, named when broken (nothing is mocked)."""

import itertools
import sys
import textwrap

import pytest
import torch

import tierkv
from tierkv import ConfigError, PluginError
from tierkv.config import make_registry
from tierkv.policies import Lru
from tierkv.registry import API_VERSION, CORE, KINDS, Registry
from tierkv.testing.assemble import Shape

NUMBER = itertools.count()
MRU = """
    import torch
    from tierkv import TablePolicy, hookimpl

    class Mru(TablePolicy):
        def choose(self, lane, misses, hits):
            free = torch.nonzero(self.id_at[lane] < 0).flatten()
            return torch.cat([free, torch.full_like(misses, -1)])[: len(misses)]

    @hookimpl
    def tierkv_register(registry):
        registry.add("policy", "mru", Mru)
"""
PLAIN = """
    from tierkv import hookimpl
    from tierkv.policies import Lru

    @hookimpl
    def tierkv_register(registry):
        registry.add("policy", "plain", Lru)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on the path as an installer would: a module and its dist-info."""

    def install(source, plugin="mru", distribution="tierkv-mru", version="1.2", module=None):
        name = module or f"tierkv_third_party_{next(NUMBER)}"
        site = tmp_path / f"site-{next(NUMBER)}"
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(f"[tierkv]\n{plugin} = {name}\n")
        if source is not None:
            (site / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return install


def broken(plugin="mru"):
    """Load everything; give the one that broke, which must leave no trace."""
    registry = make_registry()
    assert plugin not in registry.distributions
    assert {"glm52-indexshare", "dsv32-gather"} <= set(registry.distributions), "others suffer"
    names = [name for kind in KINDS for name in registry.names(kind)]
    assert "mru" not in names
    return registry, str(registry.broken[plugin])


# --- what works ---


def test_a_third_party_policy_is_loaded_by_name(install, tmp_path):
    install(MRU)
    file = tmp_path / "config.yaml"
    lines = ["policy: mru", "pool: {slots: 4}", "backing: {page: 16}", "plugins: {require: [mru]}"]
    file.write_text("\n".join(lines))
    shape = Shape(groups=((0, 1),))
    with tierkv.load(file, model=shape.spec, lanes=2, max_tokens=96) as cache:
        assert type(cache.site.policies[0]).__name__ == "Mru"
        lane = cache.admit("request")
        data = torch.arange(40 * 64).to(torch.uint8).view(40, 64)
        for layer in range(2):
            cache.prefill("request", layer, data)
        for step in range(3):
            with cache.step([lane], [41 + step]) as opened:
                for layer in range(2):
                    opened.append(layer, torch.zeros((1, 1, 64), dtype=torch.uint8))
                    ids = torch.tensor([[[3, 1, 4, 15, 9, 2]]], dtype=torch.int32)
                    kv = opened.select(layer, None if layer else ids)
                    assert torch.equal(kv.records[0, 0], data[[3, 1, 4, 15, 9, 2]])
        assert cache.stats().groups[0].hits == 2 * 4  # four slots, kept for good
        assert cache.stats().groups[0].bypassed == 3 * 2


def test_origins_are_distribution_and_version(install):
    install(MRU)
    registry = make_registry()
    assert registry.names("policy")["mru"] == "tierkv-mru 1.2"
    assert registry.distributions["mru"] == "tierkv-mru 1.2"
    assert registry.names("policy")["lru"].split()[0] == "tierkv"


def test_core_registers_by_the_same_hook():
    registry = Registry()
    assert not any(registry.names(kind) for kind in KINDS)
    made = make_registry()
    assert made.get("here", "policy", "lru") is Lru
    assert CORE in made.distributions


def test_a_blocked_plugin_is_never_imported(install):
    name = install("raise SystemError('imported')")
    registry = make_registry(("mru",))
    assert registry.blocked == {"mru"}
    assert not registry.broken
    assert name not in sys.modules


def test_block_in_a_configuration(install):
    install(MRU)
    config = {"policy": "mru", "plugins": {"block": ["mru"]}, "pool": {"slots": 16}}
    with pytest.raises(ConfigError, match=r"policy\.use: unknown policy, got 'mru'") as error:
        tierkv.load(config, model=Shape().spec)
    assert "plugins.block" in str(error.value)


# --- what breaks: named, with distribution and remedy ---

HOOK = "from tierkv import hookimpl\n@hookimpl\n"
FAULTS = {
    "raises at import": ("raise ValueError('no luck today')", "ValueError: no luck today"),
    "exits at import": ("import sys; sys.exit('bye')", "SystemExit: bye"),
    "imports what is missing": ("import nothing_of_that_name", "nothing_of_that_name"),
    "does not parse": ("def (", "SyntaxError"),
    "unknown hook": (
        HOOK + "def tierkv_regsiter(registry): pass",
        "tierkv_regsiter",
    ),
    "wrong signature": (
        HOOK + "def tierkv_register(registry, colour): pass",
        "colour",
    ),
    "raises in its hook": (
        HOOK + "def tierkv_register(registry): raise KeyError('k')",
        "KeyError: 'k'",
    ),
    "exits in its hook": (
        HOOK + "def tierkv_register(registry): raise SystemExit(3)",
        "SystemExit: 3",
    ),
    "another API": ("TIERKV_API = 99", f"it needs plugin API 99, this is {API_VERSION}"),
    "unknown kind": (
        MRU.replace('"policy", "mru"', '"polisy", "mru"'),
        "unknown kind, got 'polisy'; known tier, policy",
    ),
    "operators that are none": (
        HOOK + "def tierkv_register(registry): registry.add('ops', 'mine', object)",
        "ops mine of tierkv-mru 1.2: must be of type Ops or a class derived from it",
    ),
    "the operators' own class": (
        "from tierkv.ops import Ops\n"
        + HOOK
        + "def tierkv_register(registry): registry.add('ops', 'mine', Ops)",
        "ops mine of tierkv-mru 1.2: must be of type Ops or a class derived from it",
    ),
    "operators whose options are no attrs class": (
        "from tierkv.ops import Ops\nclass Mine(Ops): Options = dict\n"
        + HOOK
        + "def tierkv_register(registry): registry.add('ops', 'mine', Mine)",
        "Mine.Options must be an attrs class",
    ),
    "not a policy": (MRU.replace('"mru", Mru', '"mru", object()'), "policy mru"),
    "no class at all": (MRU.replace('"mru", Mru', '"mru", "Mru"'), "policy mru"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_plugin_is_named(install, fault):
    source, why = FAULTS[fault]
    install(source)
    _, message = broken()
    assert message.startswith("plugin mru (tierkv-mru 1.2): does not load, ")
    assert why in message
    assert "reinstall tierkv-mru 1.2, or add mru to plugins.block" in message


def test_a_module_that_is_missing(install):
    install(None, module="tierkv_gone")
    _, message = broken()
    assert "plugin mru (tierkv-mru 1.2)" in message
    assert "ModuleNotFoundError: No module named 'tierkv_gone'" in message


def test_an_attribute_that_is_missing(install):
    name = install(PLAIN, plugin="mru", module="tierkv_lacking")
    install(None, plugin="lacking", distribution="tierkv-lacking", module=f"{name}:plugin")
    registry = make_registry()
    assert "tierkv-lacking 1.2" in str(registry.broken["lacking"])
    assert "AttributeError" in str(registry.broken["lacking"])
    assert "mru" in registry.distributions


def test_a_broken_plugin_breaks_only_those_who_want_it(install):
    install("raise ValueError('no luck today')")
    spec = Shape().spec
    config = {"pool": {"slots": 16}, "backing": {"page": 16}}
    with tierkv.load(config, model=spec, lanes=2, max_tokens=96):
        pass
    with pytest.raises(ConfigError, match=r"plugins\.require: plugin mru .*no luck today"):
        tierkv.load({**config, "plugins": {"require": ["mru"]}}, model=spec)
    with pytest.raises(ConfigError, match=r"unknown policy, got 'mru'.*no luck today"):
        tierkv.load({**config, "policy": "mru"}, model=spec)


def test_a_required_plugin_that_is_not_installed():
    config = {"plugins": {"require": ["glm52-indexshar"]}}
    with pytest.raises(ConfigError) as error:
        tierkv.load(config, model=Shape().spec)
    message = str(error.value)
    assert message.startswith("plugins.require: is not installed, got 'glm52-indexshar'")
    assert "did you mean glm52-indexshare?" in message
    assert "pip install" in message


# --- conflicts ---


def test_a_name_registered_twice_names_both(install):
    install(PLAIN, plugin="first", distribution="tierkv-first")
    other = 'registry.add("policy", "other", Lru)'
    source = PLAIN.replace("registry.add", f"{other}\n        registry.add")
    install(source, plugin="second", distribution="tierkv-second", version="0.3")
    registry = make_registry()
    message = str(registry.broken["second"])
    assert "policy plain: is registered by tierkv-first 1.2 and by tierkv-second 0.3" in message
    assert "plugins.block" in message
    assert registry.names("policy")["plain"] == "tierkv-first 1.2"
    assert "other" not in registry.names("policy"), "half of a plugin stayed"
    blocked = make_registry(("first",))
    assert blocked.names("policy")["plain"] == "tierkv-second 0.3"


def test_a_name_of_core_is_not_taken_over(install):
    install(PLAIN.replace('"plain"', '"lru"'))
    registry, message = broken()
    assert "policy lru: is registered by tierkv" in message
    assert "and by tierkv-mru 1.2" in message
    assert registry.get("here", "policy", "lru") is Lru


def test_two_distributions_with_one_plugin_name(install):
    """The first stays whole: not even its hooks may go with the second."""
    hook = """
    from tierkv import ModelSpec

    @hookimpl
    def tierkv_model(model_config):
        if model_config.get("model_type") == "mine":
            from tierkv.testing.assemble import Shape
            return Shape().spec
    """
    second = PLAIN.replace('"plain"', '"other"')
    install(PLAIN + hook, plugin="same", distribution="tierkv-a")
    install(second, plugin="same", distribution="tierkv-b")
    registry = make_registry()
    origin = registry.distributions["same"]
    loser = {"tierkv-a 1.2", "tierkv-b 1.2"} - {origin}
    message = str(registry.broken["same"])
    assert origin in message
    assert loser.pop() in message
    brought = {"tierkv-a 1.2": "plain", "tierkv-b 1.2": "other"}
    assert brought.pop(origin) in registry.names("policy")
    assert brought.popitem()[1] not in registry.names("policy")
    if origin == "tierkv-a 1.2":
        assert registry.model({"model_type": "mine"}).top_k == Shape().top_k


def test_a_plugin_cannot_take_cores_place(install):
    install(PLAIN, plugin=CORE, distribution="tierkv-impostor")
    registry = make_registry()
    assert "tierkv-impostor 1.2" in str(registry.broken[CORE])
    assert registry.distributions[CORE].split()[0] == "tierkv"
    assert registry.get("here", "policy", "lru") is Lru


def test_unknown_names_are_answered_with_the_known_ones():
    registry = make_registry()
    with pytest.raises(ConfigError, match=r"here: unknown policy, got 'lur'.*did you mean lru"):
        registry.get("here", "policy", "lur")


def test_registering_directly_says_what_is_wrong():
    registry = Registry()
    with pytest.raises(PluginError, match=r"unknown kind, got 'polcy'.*did you mean policy"):
        registry.add("polcy", "x", Lru)
    registry.add("policy", "x", Lru)
    with pytest.raises(PluginError, match="policy x: is registered by tierkv"):
        registry.add("policy", "x", Lru, "tierkv-x 1")


# --- models ---


def test_a_plugins_model_hook_is_asked(install):
    install("""
        from tierkv import hookimpl
        from tierkv.testing.assemble import Shape

        @hookimpl
        def tierkv_model(model_config):
            if model_config.get("model_type") == "mine":
                return Shape(top_k=model_config["top_k"]).spec
    """)
    assert make_registry().model({"model_type": "mine", "top_k": 3}).top_k == 3


def test_a_model_that_no_plugin_knows():
    with pytest.raises(ConfigError, match=r"model\.?.*'unheard-of'.*tierkv_model"):
        make_registry().model({"model_type": "unheard-of"})
