"""The deeds: configuration, the poll loop, the executor of effects, logs, metrics and the daemon."""
