"""The daemon: configuration, the event loop, the executor of effects, request handlers, logs and metrics."""
