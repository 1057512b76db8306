"""A custom penalty works with starts, working sets, deflation, blocks and paths."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from tests.enumeration import compute_scatter, compute_variance, enumerate_supports

from gpower import GPower, Solver
from gpower.penalties.elementary import L1, Penalty

SPEC = importlib.util.spec_from_file_location("own_penalty", Path(__file__).parents[2] / "examples" / "own_penalty.py")
EXAMPLE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(EXAMPLE)
WholeGroups = EXAMPLE.WholeGroups


def table(seed, n_groups=6, size=3, p=20):
    labels = np.repeat(np.arange(n_groups), size)
    return np.random.default_rng(seed).standard_normal((p, labels.size)), labels


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
        S, model = compute_scatter(X), GPower(1, penalty=WholeGroups(labels), cardinality=k).fit(X)
        z = model.components_[0]
        assert np.unique(labels[z != 0]).size == k
        assert model.cardinality_[0] == 3 * k
        best = max(compute_variance(S, support) for support in enumerate_supports(labels, k))
        reached += z @ S @ z >= best * (1 - 1e-9)
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


def test_a_penalty_is_cloned_and_a_saved_model_names_its_class(reload):
    X, labels = table(4)
    model = GPower(1, penalty=WholeGroups(labels, 2)).fit(X)
    np.testing.assert_array_equal(clone(model).fit(X).components_, model.components_)
    loaded = reload(model)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.penalty == "WholeGroups"
    with pytest.raises(ValueError, match="penalty='WholeGroups' is not known"):
        loaded.fit(X)


class Three(Penalty):
    def evaluate(self, C):
        return np.zeros(3), C


class One(Penalty):
    def evaluate(self, C):
        return C


X, LABELS = table(0)


@pytest.mark.parametrize(
    ("penalty", "options", "message"),
    [
        (WholeGroups(LABELS), {"gamma": 0.1}, "WholeGroups has no gamma: leave gamma None"),
        (L1(np.ones(1)), {"cardinality": 3}, "L1 cannot fix the number of variables: leave cardinality None"),
        (object(), {}, r"penalty=<object .* is not known; use one of 'l0', 'l1'"),
        (Three(), {}, r"Three.evaluate gives arrays of shape \(3,\) and \(18, 1\)"),
        (One(), {}, r"One.evaluate cannot be used on correlations of shape \(18, 1\)"),
        (WholeGroups(LABELS[:5]), {}, r"WholeGroups.evaluate cannot be used on correlations of shape \(18, 1\)"),
    ],
)
def test_what_violates_the_contract_is_refused(penalty, options, message):
    with pytest.raises(ValueError, match=message):
        GPower(1, penalty=penalty, **options).fit(X)


def test_a_penalty_without_a_value_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Penalty()


def test_variables_left_out_rank_below_those_selected_however_large_their_correlation():
    X, labels = table(0)
    C, penalty = X.T @ X[:, :3], WholeGroups(labels, 2)
    T, magnitude = penalty.evaluate(C)[1], np.abs(C)
    smallest = np.min(np.where(T != 0, magnitude, np.inf), axis=0)
    assert np.any((T == 0) & (magnitude > smallest))
    expected = np.where(T != 0, np.inf, np.minimum(magnitude / smallest, 1))
    for given in (None, T):
        np.testing.assert_allclose(penalty.activity_ratio(C, given), expected)
