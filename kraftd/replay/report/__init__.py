"""Tables to answers: `cluster_report` (plain values, the JSON), `summary` (for a terminal), `page` (plots, by
`analyses`, `answers`, `charts` and `sections`).
"""
