"""Tables to results: `cluster_report` (plain values, the JSON), `summary` (for a terminal), `page` (plots, by
`analyses`, `analysis_results`, `charts` and `sections`).
"""
