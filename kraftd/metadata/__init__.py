"""What the metadata log adds up to: an immutable image, the fold that makes it, and Kafka's config names.

Entered through `image` (`MetadataImage`, `apply`, `Fold`, `to_records`), `delta` (`diff`) and `configs`
(names, types, validation). The daemon, the command line and the Spark job fold with the same code.
"""
