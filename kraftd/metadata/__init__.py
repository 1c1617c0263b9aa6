"""What the metadata log adds up to: an immutable image, how records change it, and Kafka's config names.

Entered through `image` (`MetadataImage`, `to_records`), `image_builder` (`apply`, `ImageBuilder`),
`image_diff` (`diff`) and `config_schema` (names, types, validation). The daemon, the command line and the
Spark job apply records with the same code.
"""
