"""The dynamic configs that the controller sets and tells: what may be set for whom, and what is in force.

Entered through the three APIs `configuration_control` (IncrementalAlterConfigs and AlterConfigs),
`describe_configs` and `listing` (ListConfigs). Each type of resource has its rules: `broker_rules`,
`topic_rules`, `group_rules`, `client_metrics_rules`. `effective` says which value is in force where several
are set.
"""
