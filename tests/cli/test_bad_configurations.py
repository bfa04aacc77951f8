"""A bad configuration: one line a fault that names key, value and what is allowed; exit 2."""

import os

import pytest

import tierkv

SCHEME = "scheme: glm52-indexshare\n"
FILE = "bad.yaml"
NUMBER = "1 to 2,147,483,647"

# id: (YAML, then for each line on stderr what it must contain)
CASES = {
    "unknown key": ("lanez: 3", ("config: ", "lanez", "known scheme, lanes", "mean lanes?")),
    "unknown key in a section": (
        "pool: {slotz: 3}",
        ("pool: ", "slotz", "known use, slots", "did you mean slots?"),
    ),
    "two unknown keys": ("lanez: 3\npolcy: lru", ("lanez",), ("polcy", "did you mean policy?")),
    "option of another component": (
        "policy: {use: lru, ways: 16}",
        ("policy: ", "unknown key ways", "known use"),
    ),
    "repeated key": ("lanes: 3\nlanes: 4", ("bad.yaml:3: ", "'lanes' stands twice", "keep one")),
    "repeated key in a section": (
        "pool: {slots: 16, slots: 32}",
        ("bad.yaml:2: ", "'slots' stands twice", "keep one"),
    ),
    "true for a number": ("lanes: true", ("lanes: ", "a whole number", "True")),
    "fraction for a number": ("lanes: 1.5", ("lanes: ", "a whole number", "1.5")),
    "text for a number": ("lanes: many", ("lanes: ", "a whole number", "'many'")),
    "nothing for a number": ("lanes:", ("lanes: ", "a whole number", "None")),
    "true for slots": ("pool: {slots: true}", ("pool.slots: ", "a whole number", "True")),
    "fraction for a page": ("backing: {page: 1.5}", ("backing.page: ", "a whole number", "1.5")),
    "true in a list": ("pool: {slots: [1, true]}", ("pool.slots[1]: ", "a whole number", "True")),
    "text for true": ("debug: maybe", ("debug: ", "true or false", "'maybe'")),
    "zero lanes": ("lanes: 0", ("lanes: ", "1 to", "0")),
    "negative tokens": ("max_tokens: -1", ("max_tokens: ", NUMBER, "-1")),
    "huge queries": ("queries: 99999999999", ("queries: ", NUMBER, "99999999999")),
    "scheme": (
        "scheme: glm52-indexshar",
        ("scheme: ", "'glm52-indexshar'", "known dsv32-gather, ", "did you mean glm52-indexshare?"),
    ),
    "scheme is a list": (
        "scheme: [glm52-indexshare]",
        ("scheme: ", "expected text", "['glm52-indexshare']"),
    ),
    "tier": ("backing: {use: hosst}", ("backing.use: ", "'hosst'", "device, file", "mean host?")),
    "tier by name alone": ("backing: hosst", ("backing.use: ", "'hosst'", "did you mean host?")),
    "policy": (
        "policy: {use: set-fif}",
        ("policy.use: ", "'set-fif'", "known ", "lru", "did you mean set-fifo?"),
    ),
    "component without a name": ("policy: {use: }", ("policy.use: ", "text", "None", "lru")),
    "list for a component": ("policy: [lru]", ("policy: ", "a mapping or a name", "['lru']")),
    "nothing for a component": ("pool:", ("pool: ", "a mapping or a name", "None", "device")),
    "pool that cannot be addressed": ("pool: file", ("pool.use: ", "'file'", "device, host")),
    "operators": ("ops: natve", ("ops.use: ", "'natve'", "known auto, ", "reference")),
    "option of operators": ("ops: {use: reference, mode: a}", ("ops: ", "key mode", "known use")),
    "option without operators": ("ops: {mode: eager}", ("ops: ", "key mode", "known use")),
    "list for operators": ("ops: [native]", ("ops: ", "a mapping or a name", "['native']")),
    "number for operators": ("ops: {use: 3}", ("ops.use: ", "text", "3", "reference")),
    "side stream without streams": (
        "installer: {schedule: side-stream}",
        ("installer.schedule: ", "side-stream needs a device with streams", "known inline, worker"),
    ),
    "side stream without streams, of a plugin": (
        "scheme: dsv32-gather\ninstaller: {schedule: side-stream}",
        ("installer.schedule: ", "side-stream needs a device with streams", "known inline, worker"),
    ),
    "schedule": ("installer: {schedule: thread}", ("installer.schedule: ", "thread", "inline")),
    "hash": ("policy: {hash: md5}", ("policy.hash: ", "'md5'", "multiplicative, low-bits")),
    "zero slots": ("pool: {slots: 0}", ("pool.slots: ", NUMBER, "0")),
    "negative slots": ("pool: {slots: -16}", ("pool.slots: ", NUMBER, "-16")),
    "huge slots": ("pool: {slots: 99999999999999999999}", ("pool.slots: ", NUMBER, "9999999")),
    "slots not divisible by ways": (
        "pool: {slots: 100}",
        ("pool.slots: ", "divisible by policy.ways 16", "100"),
    ),
    "zero ways": ("policy: {ways: 0}", ("policy.ways: ", "at least 1", "0")),
    "slots of too few groups": ("pool: {slots: [16, 32]}", ("pool.slots: ", "5 layer groups")),
    "too few slots for last-step": (
        "policy: last-step\npool: {slots: 16}",
        ("pool.slots: ", "at least top_k 256", "16"),
    ),
    "too few slots for unbounded": (
        "policy: unbounded\npool: {slots: 16}",
        ("pool.slots: ", "max_tokens", "16"),
    ),
    "too many slots for the scheme": (
        "pool: {slots: 65536}",
        ("pool.slots: ", "at most 32767", "65536", "planner: table"),
    ),
    "too many selection buffers": ("server: {depth: 99}", ("server.depth: ", "12 layers", "99")),
    "negative depth": ("server: {depth: -1}", ("server.depth: ", "not be negative", "-1")),
    "page not a power of two": (
        "backing: {page: 100}",
        ("backing.page: ", "a power of two from 16 to 1024", "100"),
    ),
    "page too small": ("backing: {page: 8}", ("backing.page: ", "from 16 to 1024", "8")),
    "capacity below one request": (
        "backing: {capacity: 1MiB}",
        ("backing.capacity: ", "one request", "bytes", "1048576", "lower max_tokens"),
    ),
    "capacity with an unknown unit": (
        "backing: {capacity: 64 potatoes}",
        ("backing.capacity: ", "like 64GiB", "'64 potatoes'"),
    ),
    "negative capacity": ("backing: {capacity: -1}", ("backing.capacity: ", "like 64GiB", "-1")),
    "true for bytes": ("backing: {capacity: true}", ("backing.capacity: ", "64GiB", "True")),
    "more tokens than rows": (
        "lanes: 100000\nmax_tokens: 1000000",
        ("backing.capacity: ", "more than 2,147,483,647", "lower it, lanes or max_tokens"),
    ),
    "required plugin missing": (
        "plugins: {require: [nope]}",
        ("plugins.require: ", "'nope'", "known dsv32-gather", "pip install tierkv-nope"),
    ),
    "two required plugins missing": ("plugins: {require: [a, b]}", ("'a'",), ("'b'",)),
    "text for a list": ("plugins: {require: nope}", ("plugins.require: ", "a list", "'nope'")),
    "required and blocked": (
        "plugins: {require: [dsv32-gather], block: [dsv32-gather]}",
        ("plugins.require: ", "'dsv32-gather'", "plugins.block"),
    ),
    "scheme of a blocked plugin": (
        "plugins: {block: [glm52-indexshare]}",
        ("scheme: ", "'glm52-indexshare'", "plugin glm52-indexshare is in plugins.block"),
    ),
    "nothing for plugins": ("plugins:", ("plugins: ", "a mapping", "None")),
    "list for a mapping": ("plugins: [a]", ("plugins: ", "a mapping", "['a']")),
    "device": ("device: gpu", ("device: ", "'gpu'", "known cpu")),
    "device without memory": ("device: meta", ("device: ", "'meta'", "holds no data")),
    "number for a device": ("device: 3", ("device: ", "expected text", "3")),
    "number for a key": ("3: 4", ("bad.yaml:2: ", "a key must be text", "3", "quotes")),
    "number for a key in a section": ("pool: {3: 4}", ("a key must be text", "3")),
    "list for a key": ("? [a]\n: 4", ("bad.yaml:2: ", "a key must be text", "['a']")),
    "model is a list": ("model: [a]", ("model: ", "a mapping or the path", "['a']")),
    "model is a number": ("model: 3", ("model: ", "a mapping or the path", "3")),
    "model is no file": ("model: no.json", ("model: ", "No such file", "'no.json'", "config.json")),
    "model is nothing": ("model:", ("model: ", "is missing", "set model")),
    "model of unknown family": ("model: {family: llama}", ("model.family: ", "'llama'")),
    "model without a family": ("model: {family: }", ("model.family: ", "text", "None")),
    "number of layers": (
        "model: {num_hidden_layers: -1}",
        ("model.num_hidden_layers: ", "a whole number of at least 1", "-1"),
    ),
    "dtype": ("model: {dtype: float99}", ("model.dtype: ", "'float99'", "bfloat16")),
    "offset": ("model: {index_skip_topk_offset: a}", ("model.index_skip_topk_offset: ", "'a'")),
    "indexer types": ("model: {indexer_types: 4}", ("model.indexer_types: ", "a list", "4")),
    "several faults": (
        "lanes: true\nbacking: {page: q}\npool: {slots: x}\npolicy: lrru\nlanez: 3",
        ("lanez",),
        ("lanes: ", "True"),
        ("backing.page: ", "'q'"),
        ("pool.slots: ", "'x'"),
        ("policy.use: ", "'lrru'", "did you mean lru?"),
    ),
    "several values out of range": (
        "lanes: 0\nqueries: 0\nbacking: {page: 100}\npool: {slots: 0}",
        ("lanes: ",),
        ("queries: ",),
        ("backing.page: ",),
        ("pool.slots: ",),
    ),
    "several that do not fit together": (
        "device: gpu\npool: {slots: [16]}\nbacking: {capacity: 1}",
        ("device: ",),
        ("pool.slots: ",),
        ("backing.capacity: ",),
    ),
    "newline in a key and a value": ('"a\\nb": 1\nops: "a\\nb"', (r"'a\nb'",), (r"'a\nb'",)),
}
WHOLE = {
    "not YAML": ("{{{:::", ("bad.yaml:1: ", "is not YAML", "examples/")),
    "tab": ("pool:\n\tslots: 3", ("bad.yaml:2: ", "is not YAML", "examples/")),
    "two documents": (f"{SCHEME}---\nlanes: 3", ("bad.yaml:2: ", "another document")),
    "nested without end": ("[" * 5000, ("bad.yaml: ", "nests too deeply")),
    "text": ("just text", ("bad.yaml: ", "a mapping", "one str", "examples/")),
    "list": ("- a\n- b", ("bad.yaml: ", "a mapping", "one list", "examples/")),
    "empty": ("", ("bad.yaml: ", "a mapping", "nothing", "examples/")),
    "comment": ("# nothing", ("bad.yaml: ", "a mapping", "nothing", "examples/")),
    "no model": ("lanes: 3", ("model: ", "is missing", "choose a scheme")),
    "tag that builds an object": (
        f"{SCHEME}policy: !!python/object/apply:os.system ['touch /nonexistent']",
        ("bad.yaml:2: ", "a tag is not allowed", "!!python/object/apply:os.system", "plain value"),
    ),
    "tag that names an object": (
        f"{SCHEME}lanes: !!python/name:os.system",
        ("bad.yaml:2: ", "a tag is not allowed", "!!python/name:os.system"),
    ),
    "own tag": (f"{SCHEME}lanes: !three 3", ("bad.yaml:2: ", "a tag is not allowed", "!three")),
}
ALL = {name: (SCHEME + case[0], *case[1:]) for name, case in CASES.items()} | WHOLE
OWN = ("scheme", "scheme is a list", "side stream without streams, of a plugin")
ALL |= {name: CASES[name] for name in OWN}  # theirs is the first line


def check_lines(text, expected):
    lines = text.splitlines()
    assert len(lines) == len(expected), text
    for line, parts in zip(lines, expected, strict=True):
        for part in parts:
            assert part in line, f"{part!r} is not in: {line}"


def write(name, tmp_path, monkeypatch):
    """Write a case's file into an own directory; give what stderr must hold."""
    monkeypatch.chdir(tmp_path)
    text, *expected = ALL[name]
    (tmp_path / FILE).write_text(text)
    return expected


@pytest.mark.parametrize("name", ALL)
def test_each_fault_is_one_line(name, invoke, nothing_allocated, tmp_path, monkeypatch):
    expected = write(name, tmp_path, monkeypatch)
    result = invoke("check", FILE)
    assert result.exit_code == 2
    assert result.stdout == ""
    check_lines(result.stderr, expected)


SOME = ["unknown key", "repeated key", "scheme", "zero slots", "capacity below one request",
        "required plugin missing", "empty", "tag that builds an object", "device"]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_run_says_the_same(name, invoke, nothing_allocated, tmp_path, monkeypatch):
    expected = write(name, tmp_path, monkeypatch)
    result = invoke("run", FILE)
    assert result.exit_code == 2
    assert result.stdout == ""
    check_lines(result.stderr, expected)


@pytest.mark.parametrize("name", [*SOME, "several faults"])
def test_load_says_the_same(name, nothing_allocated, tmp_path, monkeypatch):
    expected = write(name, tmp_path, monkeypatch)
    with pytest.raises(tierkv.ConfigError) as caught:
        tierkv.load(FILE)
    check_lines(str(caught.value), expected)


def test_aliases_do_not_explode(invoke, tmp_path, monkeypatch):
    """A "billion laughs" file: small, but its written-out value is not."""
    monkeypatch.chdir(tmp_path)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / FILE).write_text("\n".join([*lines, "scheme: *a11"]))
    result = invoke("check", FILE)
    assert result.exit_code == 2
    assert max(map(len, result.stderr.splitlines())) < 1000


def test_a_file_that_is_not_there(invoke, tmp_path):
    result = invoke("check", tmp_path / "none.yaml")
    assert result.exit_code == 2
    check_lines(result.stderr, [("none.yaml: ", "cannot be read", "No such file")])


def test_a_directory_for_a_file(invoke, tmp_path):
    result = invoke("check", tmp_path)
    assert result.exit_code == 2
    check_lines(result.stderr, [("cannot be read", "directory")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(invoke, tmp_path):
    path = tmp_path / FILE
    path.write_text(SCHEME)
    path.chmod(0)
    result = invoke("check", path)
    assert result.exit_code == 2
    check_lines(result.stderr, [("cannot be read", "Permission denied")])


def test_a_file_that_is_no_text(invoke, tmp_path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    result = invoke("check", tmp_path / FILE)
    assert result.exit_code == 2
    check_lines(result.stderr, [("bad.yaml: ", "UTF-8")])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("TIERKV_API = 99", "it needs plugin API 99"),
    ],
)
def test_a_required_plugin_that_fails_to_import(
    code, why, invoke, distribution, nothing_allocated, tmp_path
):
    distribution("broken-one", code)
    path = tmp_path / FILE
    path.write_text(f"{SCHEME}plugins: {{require: [broken-one]}}")
    result = invoke("check", path)
    assert result.exit_code == 2
    parts = ("plugins.require: plugin broken-one (broken-one 1.0)", why, "plugins.block")
    check_lines(result.stderr, [parts])

    path.write_text(SCHEME)  # not required: it does not stand in the way
    assert invoke("check", path).exit_code == 0


def test_a_scheme_of_a_broken_plugin_names_it(invoke, distribution, tmp_path):
    distribution("broken-one", "import no_such_module")
    (tmp_path / FILE).write_text("scheme: broken-scheme")
    result = invoke("check", tmp_path / FILE)
    assert result.exit_code == 2
    first, *_ = result.stderr.splitlines()
    assert "plugin broken-one (broken-one 1.0): does not load" in first


def test_memory_that_the_machine_lacks(tmp_path):
    (tmp_path / FILE).write_text(f"{SCHEME}lanes: 30000\n")
    with pytest.raises(tierkv.CapacityError, match=r"^backing.capacity: .* this machine has"):
        tierkv.load(tmp_path / FILE)
    (tmp_path / FILE).write_text(f"{SCHEME}queries: 100000000\n")
    with pytest.raises(tierkv.CapacityError, match=r"^queries: .* this machine has"):
        tierkv.load(tmp_path / FILE)
