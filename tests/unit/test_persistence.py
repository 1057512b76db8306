"""Models on disk: no pickle, nothing lost, clear errors."""

import json

import numpy as np
import pandas as pd
import pytest

from gpower import GPower
from gpower.io.model_file import ModelFileError

X = np.random.default_rng(0).standard_normal((30, 8))


def test_a_loaded_model_is_the_saved_one(reload):
    table = pd.DataFrame(X, columns=[f"gene{j}" for j in range(8)])
    model = GPower(2, cardinality=[2, 3], constraint="disjoint", scale=True, random_state=1).fit(table)
    loaded = reload(model)
    fitted_names = {name for name in vars(model) if name.endswith("_")}
    assert {name for name in vars(loaded) if name.endswith("_")} == fitted_names
    for name in fitted_names:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.transform(table), model.transform(table))
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


def test_a_path_among_the_parameters_stays_a_path(tmp_path):
    model = GPower(1, cardinality=1, checkpoint=tmp_path / "fit.npz").fit(np.diag([1.0, 2.0, 3.0]))
    model.save(tmp_path / "model.npz")
    assert GPower.load(tmp_path / "model.npz").checkpoint == str(tmp_path / "fit.npz")


def test_the_file_holds_plain_arrays_and_json(tmp_path):
    GPower(2, cardinality=3).fit(X).save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        header = json.loads(bytes(archive["header"]).decode())
        assert archive["components_"].shape == (2, 8)
    assert (header["format"], header["version"], header["class"]) == ("gpower-model", 1, "GPower")


def test_an_existing_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    model = GPower(2, cardinality=3).fit(X)
    model.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_unreadable_files_raise_an_error_with_a_remedy(tmp_path):
    path = tmp_path / "m.npz"
    GPower(2, cardinality=3).fit(X).save(path)
    whole = path.read_bytes()
    truncated = r"truncated or not a gpower model .*; write one with model.save\(path\)"
    for damaged in (whole[: len(whole) // 2], b"", whole[:200] + b"\0" * 300 + whole[500:], whole[:4]):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=truncated):
            GPower.load(path)
    np.save(tmp_path / "array.npy", X)
    np.savez(tmp_path / "other.npz", a=X)
    for other in ("array.npy", "other.npz"):
        with pytest.raises(ModelFileError, match="not a gpower model"):
            GPower.load(tmp_path / other)
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        GPower.load(tmp_path / "absent.npz")


def test_newer_formats_are_named(tmp_path):
    path = tmp_path / "m.npz"
    GPower(2, cardinality=3).fit(X).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    newer = bytes(arrays.pop("header")).replace(b'"version": 1', b'"version": 9')
    np.savez(path, header=np.frombuffer(newer, np.uint8), **arrays)
    with pytest.raises(ValueError, match="its format is 9, this one reads up to 1"):
        GPower.load(path)
