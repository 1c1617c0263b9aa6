"""The life of a broker as the controller decides it: registered, unfenced, fenced, stopped, forgotten."""
