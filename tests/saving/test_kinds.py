"""Every policy of the package has a kind, and every kind a name of its own."""

import inspect

import tether.policies
from tether.policies import FinitePolicy, Policy
from tether.saving.kinds import KINDS


def test_every_policy_of_the_package_can_be_saved():
    protocols = (Policy, FinitePolicy)
    policies = [
        each
        for name in tether.policies.__all__
        if inspect.isclass(each := getattr(tether.policies, name))
        and each not in protocols
        and hasattr(each, "sample")
    ]
    assert len(policies) >= 9
    for each in policies:
        blank = each.__new__(each)
        assert any(kind.recognizes(blank) for kind in KINDS), each


def test_names_are_distinct():
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
