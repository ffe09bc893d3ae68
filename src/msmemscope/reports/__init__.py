"""Results made readable: each report renders typed results to a stream that it is given."""
