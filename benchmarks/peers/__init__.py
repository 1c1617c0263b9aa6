"""The systems that `benchmarks/quorum.py` measures, one module each, behind `cluster.Cluster`."""
