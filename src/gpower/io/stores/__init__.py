"""Matrices that stay on disk and are read a block at a time: NumPy, HDF5, zarr, AnnData and Parquet files."""
