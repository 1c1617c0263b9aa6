"""Which names lead to a policy, and what is said of those that do not."""

import sys
from functools import partial
from pathlib import Path

import pytest

from kraftd.errors import ConfigError
from kraftd.runtime.config import parse_config
from kraftd.runtime.policy_loader import load_policy
from tests.unit.runtime.test_config import MINIMAL

MODULE = """
class Rules:
    @property
    def broken(self): return 1 / 0
    def check(self, request): ...
    def __call__(self, request): ...
    async def later(self, request): ...


class Later:
    async def __call__(self, request): ...


def check(request): ...
async def later(request): ...
def one_by_one(request): yield
async def both(request): yield
def none(): ...
def two(request, other): ...
def one_of_two(request, other=None): ...


rules = Rules()
late = Later()
number = 5
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policies.py").write_text(MODULE)
    (tmp_path / "broken_policies.py").write_text("1 / 0")
    (tmp_path / "ending_policies.py").write_text("import sys; sys.exit('boo')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_policies", raising=False)


@pytest.mark.parametrize("name", ["check", "rules", "rules.check", "one_of_two"])
def test_what_can_be_called_with_a_request_is_a_policy(name: str) -> None:
    assert load_policy(f"my_policies:{name}")(None) is None


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("org.example.CreateTopicPolicy", "is not package.module:name"),
        (":check", "is not package.module:name"),
        ("my_policies:", "is not package.module:name"),
        ("no_policies:check", "no_policies cannot be imported: ModuleNotFoundError: No module named"),
        ("broken_policies:check", "broken_policies cannot be imported: ZeroDivisionError"),
        ("ending_policies:check", "ending_policies cannot be imported: SystemExit: boo"),
        ("my_policies:rules.broken", "my_policies does not give rules.broken: ZeroDivisionError"),
        (".my_policies:check", "cannot be imported: TypeError"),
        ("my_policies:check_", "my_policies has no check_"),
        ("my_policies:rules.no", "my_policies has no rules.no"),
        ("my_policies:number", "cannot be called"),
        ("my_policies:Rules", "is a class"),
        ("my_policies:later", "is asynchronous"),
        ("my_policies:rules.later", "is asynchronous"),
        ("my_policies:late", "is asynchronous"),
        ("my_policies:one_by_one", "is a generator"),
        ("my_policies:both", "is a generator"),
        ("my_policies:none", "does not take one argument"),
        ("my_policies:two", "does not take one argument"),
    ],
)
def test_what_is_none_is_told_in_one_line(name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as told:
        load_policy(name)
    assert "\n" not in str(told.value)


def test_what_binds_some_arguments_is_judged_by_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    import my_policies  # type: ignore[import-not-found]

    monkeypatch.setattr(my_policies, "bound", partial(my_policies.two, other=1), raising=False)
    monkeypatch.setattr(my_policies, "bound_later", partial(my_policies.later), raising=False)
    assert load_policy("my_policies:bound")(None) is None
    with pytest.raises(ValueError, match="is asynchronous"):
        load_policy("my_policies:bound_later")


def test_the_configuration_names_policies_and_tells_each_mistake() -> None:
    keys = ("create.topic.policy.class.name", "alter.config.policy.class.name")
    policies = parse_config(
        MINIMAL | dict(zip(keys, ("my_policies:check", "my_policies:rules"), strict=True)), {}
    ).settings.policies
    import my_policies

    assert (policies.create_topic, policies.alter_config) == (my_policies.check, my_policies.rules)
    with pytest.raises(ConfigError) as told:
        parse_config(MINIMAL | dict(zip(keys, ("a.b.C", "my_policies:no"), strict=True)), {})
    lines = str(told.value).splitlines()
    assert [line.partition(":")[0].strip(" -") for line in lines[1:]] == list(keys)
