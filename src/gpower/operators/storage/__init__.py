"""Containers of the numbers of a matrix: dense, sparse, on a device, on disk, or in a Dask cluster."""
