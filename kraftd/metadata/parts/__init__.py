"""The parts of the image: one module a kind of entity."""
