"""What is decided about access control entries, a module an API.

`filters` says which entries a filter means. `creating`, `deleting` and `describing` are CreateAcls,
DeleteAcls and DescribeAcls. Without an authorizer each of them is SECURITY_DISABLED, as in Kafka.
"""
