"""Containers of matrix entries: dense, sparse, on a device, on disk, or in a Dask cluster."""
