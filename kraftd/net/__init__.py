"""TCP: frames in, frames out, and the handshake before anything else. Asks `protocol` for every byte."""
