"""Read tables, stores and gene sets; write models. This is the only folder that knows file formats."""
