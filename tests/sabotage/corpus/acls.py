"""Bugs of the decisions about access control entries, and of the rules of who may do what."""

from tests.sabotage.mutant import Mutant, mutant

_TESTS = "tests/unit/controller/"
_STARTING = "tests/unit/runtime/test_request_gate.py::test_a_node_that_does_not_know_all_entries_yet_refuses_nobody_for_good"
_SUPER_USERS = (
    "tests/unit/runtime/test_request_gate.py::test_on_such_a_node_super_users_alone_may_do_anything"
)
_IN_ENVELOPE = "tests/unit/runtime/test_request_gate.py::test_a_broker_looks_elsewhere_for_what_such_a_node_got_in_an_envelope"


def of_acls(name: str, text: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """A mutant that a unit test of one module catches; targets are below `kraftd`."""
    full = [(f"kraftd.{target}", old, new) for target, old, new in edits]
    return mutant(name, "D-14", text, "tests", *full, where=(_TESTS + test,))


ACLS = (
    of_acls(
        "acl-written-again",
        "An ACL that is there already is written again, under another id: removing it leaves a record behind.",
        "test_acls.py::test_what_is_there_or_comes_twice_is_not_written_again",
        ("controller.acls.creating:_is_there", "return any(", "return False and any("),
    ),
    of_acls(
        "cluster-of-any-name",
        "An ACL for a cluster of another name is made: it allows nothing, and nobody is told.",
        "test_acls.py::test_what_cannot_be_an_acl_is_refused_and_costs_no_other",
        ("controller.acls.creating:_mistakes", "name != CLUSTER_NAME", "not name"),
    ),
    of_acls(
        "acl-without-an-authorizer",
        "ACLs are made although no authorizer is configured, which would keep to them.",
        "test_acls.py::test_without_an_authorizer_there_are_no_acls",
        ("controller.acls.creating:create_acls", "if context.settings.authorizer is None:", "if False:"),
    ),
    of_acls(
        "acl-id-in-use",
        "A new ACL gets the id of one that is there, and takes its place.",
        "test_acls.py::test_ids_come_from_the_seed_and_are_not_given_twice",
        ("controller.acls.creating:_new_id", "acls.get(acl_id) is None", "True"),
    ),
    of_acls(
        "removed-twice",
        "What two filters mean is removed twice: the second record ends every node that applies it.",
        "test_acls.py::test_what_two_filters_mean_is_removed_once_and_told_by_both",
        (
            "controller.acls.deleting:delete_acls",
            "removed[acl.id] =",
            "removed[acl.id + bytes([len(removed)])] =",
        ),
    ),
    of_acls(
        "filters-without-a-bound",
        "Ten thousand filters that leave the name open look at every ACL each: the controller stands still.",
        "test_acls.py::test_a_request_looks_at_so_many_acls_and_no_more",
        ("controller.acls.filters:AclSearch._look", "if self._looks_left < 0:", "if False:"),
    ),
    of_acls(
        "match-without-prefixes",
        "A filter for whatever matches a name does not mean the ACLs of its prefixes.",
        "test_acls.py::test_a_filter_means",
        (
            "metadata.indexed_acls:IndexedAcls.about",
            "if length <= len(name):",
            "if length == len(name):",
        ),
    ),
    of_acls(
        "allowed-before-denied",
        "An ACL that allows decides although another one denies.",
        "test_authorizer.py::test_an_acl_that_denies_decides_wherever_it_stands",
        (
            "controller.authorizer:Authorizer.allows",
            "is_allowed = is_allowed or acl.operation in allowed_by",
            "return acl.operation in allowed_by",
        ),
    ),
    of_acls(
        "denying-denies-what-it-implies",
        "Denying READ denies DESCRIBE, which it does not in Kafka.",
        "test_authorizer.py::test_some_operations_are_allowed_with_others_and_none_is_denied_with_another",
        (
            "controller.authorizer:Authorizer.allows",
            "elif acl.operation in (asked, _ALL):",
            "elif acl.operation in allowed_by:",
        ),
    ),
    of_acls(
        "everybody-although-an-acl-is-found",
        "With allow.everyone.if.no.acl.found anybody may do what an ACL allows to somebody else.",
        "test_authorizer.py::test_what_no_acl_speaks_of_may_be_everybodys",
        ("controller.authorizer:Authorizer.allows", "and not is_spoken_of", ""),
    ),
    of_acls(
        "a-prefix-is-forgotten",
        "With one of two prefixes of a length its ACLs go, and so do those of the other.",
        "test_authorizer.py::test_with_one_prefix_gone_another_of_its_length_goes_on_to_count",
        (
            "metadata.indexed_acls:_counted",
            "counts.set(len(name), count) if count else counts.delete(len(name))",
            "counts.set(len(name), count) if by > 0 else counts.delete(len(name))",
        ),
    ),
    of_acls(
        "removed-and-still-indexed",
        "An ACL that is removed goes on to allow what it did.",
        "test_authorizer.py::test_a_decision_is_that_of_the_rules",
        ("metadata.indexed_acls:IndexedAcls.remove", "if acl.id != key", ""),
    ),
    of_acls(
        "created-without-a-right",
        "Whoever reaches a broker creates topics, whatever the ACLs say: brokers leave that to the controller.",
        "test_rights.py::test_topics_are_created_by_who_may_create_them_or_all",
        ("controller.topics.creating:create_topics", "if not may_create_all and", "if False and"),
    ),
    of_acls(
        "deleted-without-a-right",
        "Who may describe a topic may delete it, too.",
        "test_rights.py::test_topics_are_deleted_by_who_may_delete_them_or_all",
        (
            "controller.topics.deleting:_denied",
            "may_delete = not is_there or rights.has(AclOperation.DELETE, AclResource.TOPIC, name)",
            "may_delete = True",
        ),
    ),
    of_acls(
        "name-told-by-an-id",
        "Who may not describe a topic learns its name by its id.",
        "test_rights.py::test_the_name_of_a_topic_is_told_to_who_may_describe_it",
        (
            "controller.topics.deleting:_denied",
            "return (topic.name if may_describe else None), topic_id",
            "return topic.name, topic_id",
        ),
    ),
    of_acls(
        "configs-of-others",
        "Who may alter the configs of a topic may alter those of every topic and broker.",
        "test_rights.py::test_one_resource_without_a_right_costs_no_other",
        (
            "controller.configs.configuration_control:_decide",
            "context.rights.check_config(AclOperation.ALTER_CONFIGS, kind, name)",
            "pass",
        ),
    ),
    mutant(
        "envelope-of-anybody",
        "D-14",
        "A request inside an Envelope is done without a look at its principal.",
        "tests",
        (
            "kraftd.runtime.request_router:RequestRouter.request_forwarded",
            "self._handle(handler, client, request)",
            "handler(client, request)",
        ),
        where=(
            "tests/unit/runtime/test_request_gate.py::"
            "test_an_envelope_needs_the_right_of_a_node_and_what_is_inside_that_of_its_principal",
        ),
    ),
    mutant(
        "voters-need-a-right",
        "D-37",
        "Voters need CLUSTER_ACTION to fetch: without an ACL nobody follows, and so no ACL can be made.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate._is_of_the_quorum",
            "return is_voter or",
            "return",
        ),
        where=(
            "tests/unit/runtime/test_request_gate.py::"
            "test_the_quorums_own_requests_of_voters_are_let_through_and_all_where_nobody_leads",
        ),
    ),
    mutant(
        "refused-before-it-is-known",
        "KIP-801",
        "A node that has just started refuses whoever needs an ACL, as if it knew them all.",
        "tests",
        ("kraftd.runtime.request_gate:RequestGate.refusal", "if not self._has_caught_up():", "if False:"),
        where=(_STARTING,),
    ),
    mutant(
        "what-is-not-known-yet-is-allowed",
        "KIP-801",
        "A node that has just started, and knows no entry, lets everybody do everything.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate.refusal",
            "if self._authorizer.is_super_user(client.principal):",
            "if self._authorizer.is_super_user(client.principal) or self._authorizer.allow_everyone:",
        ),
        where=(_SUPER_USERS,),
    ),
    mutant(
        "super-users-wait-for-the-acls",
        "KIP-801",
        "A node that has just started lets nobody do anything, though it knows who may do all.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate.refusal",
            "if self._authorizer.is_super_user(client.principal):",
            "if False:",
        ),
        where=(_SUPER_USERS,),
    ),
    mutant(
        "never-refused-for-good",
        "KIP-801",
        "Whoever has no right is told to ask again, for ever.",
        "tests",
        ("kraftd.runtime.request_gate:RequestGate.refusal", "if not self._has_caught_up():", "if True:"),
        where=(
            "tests/unit/runtime/test_request_gate.py::"
            "test_a_right_on_the_cluster_is_needed_and_told_if_it_is_missing",
        ),
    ),
    mutant(
        "clients-stay-at-a-node-that-starts",
        "KIP-801",
        "Who asked for the active controller is not told to look for it elsewhere.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate._until_ready",
            "type(message) in self._controller.requests or ",
            "",
        ),
        where=(_STARTING,),
    ),
    mutant(
        "brokers-stay-at-a-node-that-starts",
        "KIP-801",
        "A broker is told nothing after which it would look for the active controller elsewhere.",
        "tests",
        (
            "kraftd.runtime.request_gate:RequestGate._until_ready",
            " or type(message) in _OF_THE_LEADER",
            "",
        ),
        where=(_IN_ENVELOPE,),
    ),
    mutant(
        "every-node-knows-its-acls",
        "KIP-801",
        "A node believes from its start on that it knows who may do what.",
        "process",
        (
            "kraftd.runtime.controller_server:ControllerServer._add_routes",
            "lambda: self.applier.has_caught_up",
            "lambda: True",
        ),
        where=(
            "tests/process/test_authorizer.py::"
            "test_a_node_that_cannot_know_yet_who_may_do_what_refuses_nobody_for_good",
        ),
    ),
)
