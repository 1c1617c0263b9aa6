"""How records make and remove quotas, producer ids, ACLs, CREDENTIAL credentials and tokens in the image."""

import pytest
from msgspec.structs import replace

from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply, apply_all
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.acls import ACLS
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.metadata.parts.producer_ids import PRODUCER_IDS
from kraftd.metadata.parts.scram import SCRAM
from kraftd.records.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from kraftd.records.messages import ClientQuotaRecordEntityData as Part

USER, CLIENT, ANYBODY = Part("user", "u"), Part("client-id", "c"), Part("user", None)
QUOTA = ClientQuotaRecord((CLIENT, USER), "rate", 1.5)
ACL = AccessControlEntryRecord(bytes(15) + b"\x07", 2, "t", 3, "User:u", "*", 3, 3)
CREDENTIAL = UserScramCredentialRecord("u", 1, b"salt", b"stored", b"server", 4096)
TOKEN = DelegationTokenRecord("User:o", "User:r", ("User:a", "User:b"), 1, 2, 3, "id")
IDS = ProducerIdsRecord(-1, -1, 3000)
ZK = ZkMigrationStateRecord(1)


def test_each_is_shown():
    image = apply_all(EMPTY, [TOKEN, CREDENTIAL, ACL, IDS, QUOTA, ZK], 0)
    assert list(image[CLIENT_QUOTAS].values()) == [QUOTA]
    assert PRODUCER_IDS.next_id(image) == 3000
    assert (image[ACLS].get(ACL.id), list(image[ACLS].values())) == (ACL, [ACL])
    assert (image[SCRAM].get((1, "u")), list(image[SCRAM].values())) == (CREDENTIAL, [CREDENTIAL])
    assert (image[DELEGATION_TOKENS].get("id"), list(image[DELEGATION_TOKENS].values())) == (TOKEN, [TOKEN])
    assert list(to_records(image)) == [ZK, QUOTA, IDS, ACL, CREDENTIAL, TOKEN]


def test_what_is_not_there_is_not_shown():
    assert PRODUCER_IDS.next_id(EMPTY) is None
    assert EMPTY[ACLS].get(ACL.id) is EMPTY[SCRAM].get((1, "u")) is EMPTY[DELEGATION_TOKENS].get("id") is None


@pytest.mark.parametrize(
    ("record", "removal"),
    [
        (QUOTA, replace(QUOTA, entity=(USER, CLIENT), value=0.0, remove=True)),
        (ACL, RemoveAccessControlEntryRecord(ACL.id)),
        (CREDENTIAL, RemoveUserScramCredentialRecord("u", 1)),
        (TOKEN, RemoveDelegationTokenRecord("id")),
    ],
)
def test_a_removal_leaves_no_trace(record, removal):
    gone = apply_all(EMPTY, [record, removal], 0)
    assert gone == EMPTY
    assert gone.hash() == EMPTY.hash()


@pytest.mark.parametrize(
    ("record", "later"),
    [
        (QUOTA, replace(QUOTA, value=9.0)),
        (ACL, replace(ACL, host="h")),
        (CREDENTIAL, replace(CREDENTIAL, iterations=8192)),
        (TOKEN, replace(TOKEN, expiration_timestamp=9)),
        (IDS, replace(IDS, next_producer_id=4000)),
        (ZK, ZkMigrationStateRecord(2)),
    ],
)
def test_a_later_record_takes_the_place_of_an_earlier_one(record, later):
    image = apply_all(EMPTY, [record, later], 0)
    assert list(to_records(image)) == [later]
    assert image.hash() == apply(EMPTY, later, 0).hash() != apply(EMPTY, record, 0).hash()


def test_quotas_differ_by_entity_default_and_name():
    others = [
        replace(QUOTA, entity=(USER,)),
        replace(QUOTA, entity=(ANYBODY,)),
        replace(QUOTA, entity=(Part("user", ""),)),
        replace(QUOTA, key="percentage"),
    ]
    assert len(list(apply_all(EMPTY, [QUOTA, *others], 0)[CLIENT_QUOTAS].values())) == 5


def test_the_order_of_the_parts_of_an_entity_means_nothing():
    assert apply(EMPTY, replace(QUOTA, entity=(USER, CLIENT)), 0) == apply(EMPTY, QUOTA, 0)


def test_who_was_given_a_block_of_producer_ids_does_not_matter():
    image = apply(EMPTY, replace(IDS, broker_id=4, broker_epoch=7), 0)
    assert image == apply(EMPTY, IDS, 0)


@pytest.mark.parametrize(
    "removal", [replace(QUOTA, remove=True), RemoveDelegationTokenRecord("id")], ids=["quota", "token"]
)
def test_a_quota_or_a_token_may_be_removed_twice(removal):
    assert apply(EMPTY, removal, 0) == EMPTY


@pytest.mark.parametrize(
    ("removal", "reason"),
    [
        (RemoveAccessControlEntryRecord(b"\x01" * 16), "there is no ACL with the id 0101"),
        (
            RemoveUserScramCredentialRecord("u", 2),
            "there is no SCRAM credential of mechanism 2 for user u",
        ),
    ],
)
def test_an_acl_or_a_credential_that_is_not_there_cannot_be_removed(removal, reason):
    with pytest.raises(ImpossibleRecordError, match=f"offset 6 is impossible: {reason}"):
        apply_all(EMPTY, [ACL, CREDENTIAL, removal], 4)
