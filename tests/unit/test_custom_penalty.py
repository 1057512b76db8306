"""A custom penalty works with starts, working sets, deflation, blocks and paths."""

import importlib.util
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from gpower import GPower, Solver
from gpower.penalties.elementary import L1, Penalty

SPEC = importlib.util.spec_from_file_location("own_penalty", Path(__file__).parents[2] / "examples" / "own_penalty.py")
EXAMPLE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(EXAMPLE)
WholeGroups = EXAMPLE.WholeGroups


def table(seed, n_groups=6, size=3, p=20):
    labels = np.repeat(np.arange(n_groups), size)
    return np.random.default_rng(seed).standard_normal((p, labels.size)), labels


def best(A, labels, k):
    """Compute the largest variance of a component of k whole groups by enumeration."""
    chosen = combinations(np.unique(labels), k)
    return max(np.linalg.norm(A[:, np.isin(labels, groups)], 2) ** 2 for groups in chosen)


def test_the_example_finds_the_groups_that_were_planted(capsys):
    labels, _, model, path = EXAMPLE.main()
    assert [np.unique(labels[z != 0]).tolist() for z in model.components_] == [[4, 11], [20, 33]]
    assert model.cardinality_.tolist() == [10, 10]
    assert np.all(np.diff(path.explained_variance_ratio[:, 0]) >= 0)
    assert path.at(cardinality=4).cardinality_.tolist() == [20]
    assert "[4, 11]" in capsys.readouterr().out


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_best_groups_are_found(k):
    reached = 0
    for seed in range(10):
        X, labels = table(seed)
        A = X - X.mean(axis=0)
        model = GPower(1, penalty=WholeGroups(labels), cardinality=k).fit(X)
        z = model.components_[0]
        assert np.unique(labels[z != 0]).size == k
        assert model.cardinality_[0] == 3 * k
        reached += np.linalg.norm(A @ z) ** 2 >= best(A, labels, k) * (1 - 1e-9)
    assert reached >= 9


@pytest.mark.parametrize("algorithm", ["working_set", "full"])
def test_the_working_set_and_the_full_matrix_keep_groups_whole(algorithm):
    X, labels = table(0, n_groups=120, size=5, p=60)
    model = GPower(3, penalty=WholeGroups(labels, 2), solver=Solver(algorithm), deflation="schur").fit(X)
    for z in model.components_:
        used = np.unique(labels[z != 0])
        assert used.size == 2
        assert np.count_nonzero(z) == 10
    assert np.all(model.converged_)
    assert np.all(np.isnan(model.gamma_))


def test_a_block_and_non_negative_loadings():
    X, labels = table(1, n_groups=8)
    block = GPower(2, penalty=WholeGroups(labels), cardinality=(2, 1), method="block").fit(X)
    assert [np.unique(labels[z != 0]).size for z in block.components_] == [2, 1]
    positive = GPower(1, penalty=WholeGroups(labels, 2), positive=True).fit(X)
    assert np.all(positive.components_ >= 0)
    assert np.unique(labels[positive.components_[0] != 0]).size <= 2


def test_a_penalty_of_the_library_as_an_object_is_the_one_by_name():
    X, _ = table(2)
    norms = np.linalg.norm(X - X.mean(axis=0), axis=0)
    by_name = GPower(1, penalty="l1", gamma=0.3).fit(X)
    as_given = GPower(1, penalty=L1(np.array([0.3 * norms.max()]))).fit(X)
    at_level = GPower(1, penalty=L1(np.zeros(1)), gamma=0.3).fit(X)
    np.testing.assert_allclose(as_given.components_, by_name.components_, atol=1e-12)
    np.testing.assert_array_equal(at_level.components_, by_name.components_)


def test_a_penalty_is_cloned_like_other_parameters():
    X, labels = table(3)
    model = clone(GPower(1, penalty=WholeGroups(labels), cardinality=2))
    first, again = model.fit(X).components_, clone(model).fit(X).components_
    np.testing.assert_array_equal(first, again)


def test_a_saved_model_names_the_class_of_its_penalty(tmp_path):
    X, labels = table(4)
    model = GPower(1, penalty=WholeGroups(labels, 2)).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = GPower.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.penalty == "WholeGroups"
    with pytest.raises(ValueError, match="penalty='WholeGroups' is not known"):
        loaded.fit(X)


class TestRefused:
    def test_a_level_that_the_penalty_does_not_take(self):
        X, labels = table(0)
        with pytest.raises(ValueError, match="WholeGroups has no gamma: leave gamma None"):
            GPower(1, penalty=WholeGroups(labels), gamma=0.1).fit(X)
        with pytest.raises(ValueError, match="L1 cannot fix the number of variables: leave cardinality None"):
            GPower(1, penalty=L1(np.ones(1)), cardinality=3).fit(X)

    def test_an_object_that_is_not_a_penalty(self):
        with pytest.raises(ValueError, match=r"penalty=<object .* is not known; use one of 'l0', 'l1'"):
            GPower(1, penalty=object()).fit(np.eye(4))

    def test_a_penalty_without_a_value(self):
        with pytest.raises(TypeError, match="abstract"):
            Penalty()

    def test_a_penalty_that_violates_the_contract(self):
        class Three(Penalty):
            def evaluate(self, C):
                return np.zeros(3), C

        class One(Penalty):
            def evaluate(self, C):
                return C

        X, labels = table(0)
        with pytest.raises(ValueError, match=r"Three.evaluate gives arrays of shape \(3,\) and \(18, 1\)"):
            GPower(1, penalty=Three()).fit(X)
        with pytest.raises(ValueError, match=r"One.evaluate cannot be used on correlations of shape \(18, 1\)"):
            GPower(1, penalty=One()).fit(X)
        with pytest.raises(ValueError, match=r"WholeGroups.evaluate cannot be used on correlations of shape \(18, 1\)"):
            GPower(1, penalty=WholeGroups(labels[:5])).fit(X)
