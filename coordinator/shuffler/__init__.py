"""The shuffler, which sees who sends and hands on what was sent; it knows nothing but the protocol."""
