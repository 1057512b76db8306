"""Rules on variables: groups, included and excluded variables, weights and budgets."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from tests.enumeration import GROUPS, compute_scatter, compute_variance, make_table, support_of
from tests.optional_packages import OptionalPackage
from tests.planted_data import make_modules

from gpower import GPower, GPowerCV, GPowerWarning, Solver, sparsity_path, stability_selection
from gpower.penalties.elementary import Cardinality
from gpower.penalties.support_rules import SupportRules
from gpower.solvers.group_swaps import find_better_groups
from gpower.validation.variable_rules import VariableRules

pd = OptionalPackage("pandas")

NAMES = [f"gene{j}" for j in range(12)]
COSTS = np.arange(12) + 2.0


def make_frame(seed=0):
    return pd.DataFrame(make_table(seed), columns=NAMES)


def count_groups(z):
    return np.unique(GROUPS[z != 0]).size


RULES = {
    "include": {"include": [3, 7]},
    "exclude": {"exclude": [0, 1, 5]},
    "both": {"include": [2], "exclude": [4, 6]},
    "groups": {"groups": GROUPS},
    "all of it": {"groups": GROUPS, "include": [5], "exclude": [1, 8]},
}
EACH_RULE = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


class TestExactCardinality:
    @EACH_RULE
    def test_the_working_set_and_the_direct_ascent_agree(self, rules):
        found = [
            GPower(2, cardinality=3, solver=Solver(how), **rules).fit(make_table(1)) for how in ("working_set", "full")
        ]
        np.testing.assert_allclose(found[0].explained_variance_, found[1].explained_variance_, rtol=1e-6)

    def test_lists_give_components_a_place_of_their_own(self):
        X = make_table(3) * np.r_[9.0, np.full(5, 5.0), np.ones(6)]
        model = GPower(2, cardinality=2, include=[[8], [0]], exclude=[[0], [1]]).fit(X)
        assert model.components_[[0, 1], [8, 0]].all()
        assert not model.components_[[0, 1], [0, 1]].any()
        assert model.explained_variance_[0] < model.explained_variance_[1]

    def test_variables_are_found_by_name(self):
        X = make_frame(4)
        model = GPower(1, cardinality=3, include=["gene7"], exclude=["gene2", 3], groups=None).fit(X)
        same = GPower(1, cardinality=3, include=7, exclude=[2, 3]).fit(X.to_numpy())
        np.testing.assert_array_equal(model.components_, same.components_)

    def test_a_block_keeps_the_rules_of_each_unit(self):
        block = GPower(2, cardinality=[2, 1], method="block", groups=GROUPS, include=[[5], []]).fit(make_table(5))
        assert [count_groups(z) for z in block.components_] == [2, 1]
        assert 5 in support_of(block.components_[0])
        penalised = GPower(2, gamma=0.1, method="block", groups=GROUPS, exclude=[[0], [3]], n_init=3).fit(make_table(5))
        assert not penalised.components_[[0, 1], [0, 3]].any()
        assert np.all(penalised.cardinality_ > 0)

    def test_large_tables_are_solved_by_the_sequential_solver(self):
        labels = np.repeat(np.arange(600), 5)
        X = make_modules((120, 3000), (slice(35, 45), 2), (slice(1500, 1510), 1.5))
        model = GPower(2, cardinality=2, groups=labels).fit(X)
        assert [set(labels[z != 0]) for z in model.components_] == [{7, 8}, {300, 301}]
        apart = GPower(2, cardinality=2, groups=labels, include=[0], exclude=[[35], []]).fit(X)
        assert all(0 in set(labels[z != 0]) for z in apart.components_)
        assert not apart.components_[0, 35]


class TestIncludedWithoutALoading:
    @pytest.mark.parametrize(
        "options",
        [
            {"cardinality": [1, 3]},
            {"cardinality": [1, 3], "deflation": "projection"},
            {"cardinality": [1, 2], "groups": {2: "a", 3: "a"}},
            {"budget": [1, 3], "penalty_weights": np.r_[np.ones(11), 1.5]},
            {"gamma": 0.5},
            {"gamma": 0.8, "penalty": "l1"},
        ],
    )
    def test_an_earlier_component_has_removed_the_variable(self, options):
        X = make_table(1) * np.r_[9.0, np.ones(11)]
        with pytest.warns(GPowerWarning, match=r"^include asks for 0 in component 2, where the best"):
            model = GPower(2, include=[0], **options).fit(X)
        assert support_of(model.components_[0]) == {0}
        assert 0 not in support_of(model.components_[1])
        assert len(model.warnings_) == 1  # without the warning that fewer variables explain as much

    def test_a_variable_that_needs_the_other_sign(self):
        X = make_table(2)
        X[:, 4] = -X[:, 3] + 0.1 * X[:, 5]
        frame = pd.DataFrame(X[:, [3, 4]], columns=["up", "down"])
        with pytest.warns(GPowerWarning, match="include asks for 'down' in component 1"):
            GPower(1, cardinality=2, positive=True, include=["up", "down"]).fit(frame[["up", "down"]] * [3, 1])


class TestPenalised:
    @pytest.mark.parametrize("seed", range(4))
    def test_weights_change_the_threshold_of_a_variable(self, seed):
        X, rng = make_table(seed), np.random.default_rng(seed)
        weights, S = rng.uniform(0.2, 3, 12), compute_scatter(X)
        model = GPower(1, gamma=0.05, penalty_weights=weights, n_init=12).fit(X)
        objective = [
            compute_variance(S, support) - model.gamma_[0] * weights[list(support)].sum()
            for size in range(1, 13)
            for support in combinations(range(12), size)
        ]
        assert model.objective_[0] >= max(objective) * (1 - 0.02)
        assert model.gamma_[0] == pytest.approx(0.05 * np.max(np.diag(S) / weights))

    def test_a_group_counts_by_the_root_of_its_size(self):
        roots = dict(enumerate(np.sqrt(np.bincount(GROUPS))))
        for penalty in ("l0", "l1"):
            model = GPower(1, gamma=0.2, penalty=penalty, groups=GROUPS).fit(make_table(2))
            for weights in (roots, np.ones(12)):
                again = clone(model).set_params(penalty_weights=weights).fit(make_table(2))
                np.testing.assert_array_equal(again.components_, model.components_)

    @pytest.mark.parametrize("level", [{"gamma": 0.1}, {"gamma": 0.2, "penalty": "l1"}, {"budget": 6.0}])
    def test_weights_by_variable_go_together_with_groups(self, level):
        X, weights = make_table(2), np.ones(12)
        weights[[3, 10]] = 0.5, 3.0
        in_order = GPower(1, groups=GROUPS, penalty_weights=weights, **level).fit(X)
        by_column = GPower(1, groups=GROUPS, penalty_weights={10: 3.0, 3: 0.5} | {7: 1.0}, **level)
        labels = [f"g{g}" for g in GROUPS]
        by_column.set_params(groups=labels).fit(X)
        np.testing.assert_array_equal(in_order.components_, by_column.components_)
        added = 3.0 + 2 if "budget" in level else np.sqrt(9.0 + 2)
        mixed = GPower(1, groups=labels, penalty_weights={"g4": added, 3: 0.5}, **level).fit(X)
        np.testing.assert_allclose(mixed.components_, in_order.components_, atol=1e-9)

    def test_labels_of_groups_of_one_name_their_weights(self):
        labels, options = list("abcdefghijkl"), {"gamma": 0.1, "n_components": 1}
        by_label = GPower(groups=labels, penalty_weights={"d": 0.2}, **options).fit(make_table(2))
        by_column = GPower(penalty_weights={3: 0.2}, **options).fit(make_table(2))
        np.testing.assert_array_equal(by_label.components_, by_column.components_)

    def test_zero_weight_is_free_and_include_is_free(self):
        X, weights = make_table(3), np.ones(12)
        weights[[2, 9]] = 0
        free = GPower(1, gamma=0.6, penalty_weights=weights).fit(X)
        included = GPower(1, gamma=0.6, include=[2, 9]).fit(X)
        assert {2, 9} <= support_of(free.components_[0])
        np.testing.assert_allclose(free.components_, included.components_, atol=1e-10)

    @pytest.mark.parametrize("penalty", ["l0", "l1"])
    def test_excluded_variables_have_no_loading(self, penalty):
        X = make_table(4) * np.r_[20.0, 20.0, np.ones(10)]
        model = GPower(1, gamma=0.3, penalty=penalty, exclude=[0, 1]).fit(X)
        alone = GPower(1, gamma=0.3, penalty=penalty).fit(X[:, 2:])
        np.testing.assert_allclose(model.components_[0, 2:], alone.components_[0], atol=1e-9)
        assert not model.components_[0, :2].any()
        nothing = GPower(1, gamma=0.0, penalty=penalty, exclude=[0, 1]).fit(X)
        assert support_of(nothing.components_[0]) == set(range(2, 12))

    def test_a_calibrated_penalty_counts_groups(self):
        for seed in range(4):
            model = GPower(1, penalty="l1", cardinality=3, groups=GROUPS, include=[5]).fit(make_table(seed))
            assert count_groups(model.components_[0]) == 3
            assert 5 in support_of(model.components_[0])


class TestBudget:
    def test_an_included_variable_is_paid_for(self):
        costs = np.linspace(1, 4, 9)
        model = GPower(1, budget=6, penalty_weights=costs, include=[1]).fit(make_table(0, n=9))
        assert 1 in support_of(model.components_[0])
        assert costs[model.components_[0] != 0].sum() <= 6 * (1 + 1e-9)

    @pytest.mark.parametrize("scale", [1.0, 2.0**-40])
    def test_a_swap_of_variables_keeps_a_budget_of_any_size(self, scale):
        rules = SupportRules.from_groups(np.arange(4), scale * np.array([[1.0], [1.0], [1.0], [1.5]]))
        two = find_better_groups(np.ones((4, 4)) + np.eye(4), np.arange(4) < 1, rules, 2 * scale)
        assert rules.group_costs[two].sum() == 2 * scale
        assert find_better_groups(np.ones((4, 4)) + np.eye(4), two, rules, 2 * scale) is None

    def test_the_costs_of_a_group_add_up(self):
        model = GPower(1, budget=4, penalty_weights=np.ones(12), groups=GROUPS).fit(make_table(1))
        assert model.cardinality_[0] <= 4
        by_label = GPower(1, budget=2, penalty_weights=dict.fromkeys(range(6), 1.0), groups=GROUPS).fit(make_table(1))
        counted = GPower(1, cardinality=2, groups=GROUPS).fit(make_table(1))
        np.testing.assert_allclose(by_label.components_, counted.components_, atol=1e-12)


EMPTY_RULES = {
    "groups of one": {"groups": np.arange(12)},
    "some groups of one": {"groups": {j: f"g{j}" for j in range(4)}},
    "empty lists": {"include": [], "exclude": []},
    "empty lists for each": {"include": [[], []]},
    "weights of one": {"penalty_weights": np.ones(12)},
    "some weights of one": {"penalty_weights": {3: 1.0}},
}
PLAIN = [
    {"cardinality": 3},
    {"cardinality": [4, 2], "method": "block"},
    {"cardinality": 3, "positive": True},
    {"cardinality": 3, "variance": "l1"},
    {"cardinality": 3, "solver": Solver("working_set"), "deflation": "projection"},
    {"cardinality": 0.7},
    {"cardinality": 4, "penalty": "l1"},
    {"cardinality": 4, "penalty": "l1", "method": "block"},
    {"gamma": 0.2},
    {"gamma": 0.2, "penalty": "l1", "method": "block"},
    {"gamma": 0.2, "positive": True},
    {"l1_bound": 2.0},
    {"cardinality": 3, "constraint": "orthogonal"},
]


@pytest.mark.filterwarnings("ignore")
class TestEmptyRules:
    @staticmethod
    @cache
    def fit_without_rules(i):
        return GPower(2, **PLAIN[i]).fit(make_table(7))

    @pytest.mark.parametrize("i", range(len(PLAIN)), ids=map(str, PLAIN))
    @pytest.mark.parametrize("rules", EMPTY_RULES.values(), ids=EMPTY_RULES)
    def test_empty_rules_change_no_digit(self, i, rules):
        plain, same = self.fit_without_rules(i), GPower(2, **PLAIN[i], **rules).fit(make_table(7))
        np.testing.assert_array_equal(same.components_, plain.components_)
        np.testing.assert_array_equal(same.objective_, plain.objective_)

    def test_a_budget_of_ones_is_a_cardinality(self):
        one = GPower(2, budget=3.5, penalty_weights=np.ones(12)).fit(make_table(7))
        np.testing.assert_array_equal(one.components_, self.fit_without_rules(0).components_)


@pytest.mark.parametrize("as_labels", [list, np.array])
def test_variables_with_an_empty_label_are_in_no_group(as_labels):
    rules = VariableRules(4, 1, groups=as_labels(["a", "", "a", ""]))
    np.testing.assert_array_equal(rules.group_indices, [0, 1, 0, 2])


class TestRefused:
    @pytest.mark.parametrize(
        ("rules", "sentence"),
        [
            ({"groups": np.arange(13)}, "groups has 13 entries, but there are 12 variables"),
            ({"groups": {12: "a"}}, "groups names column 12, and there are 12 variables, counted from 0"),
            ({"groups": {"gene99": "a"}}, "groups names 'gene99', but the variables have no names"),
            ({"groups": np.array([" "] * 12)}, "groups has no label for any variable"),
            ({"groups": np.zeros(12)}, "groups puts all 12 variables into one group, 0.0"),
            ({"groups": [["a", "b"], *range(11)]}, r"groups has \['a', 'b'\] for variable 0; a label is a name"),
            ({"groups": 3}, "groups=3: one label per variable is needed"),
            ({"include": [-1]}, "include names column -1, and there are 12 variables"),
            ({"include": [1, 2], "exclude": [1, 2]}, "include and exclude both name 1, 2"),
            ({"include": range(4)}, r"include asks for 4 variables \(0, 1, 2, 3\), and cardinality=3"),
            ({"include": [0, 3, 5, 6], "groups": GROUPS}, r"asks for 4 groups \(0, 1, 2, 3\), and cardinality=3"),
            ({"include": [[1], [2], [3]]}, "include has 3 lists, but n_components=2"),
            ({"include": [1, [2]]}, "include mixes variables and lists"),
            ({"include": 1.5}, "include=1.5: names or column numbers"),
            ({"include": [11]}, "include asks for 11, which does not vary"),
            ({"exclude": [1], "penalty": Cardinality(np.array([2]))}, "exclude excludes penalty=.*Cardinality"),
            ({"include": [1], "l1_bound": 2}, "include excludes l1_bound=2: leave one"),
            ({"exclude": range(12)}, "exclude names all 12 variables"),
            ({"exclude": range(10)}, "cardinality=3, and exclude leaves 2 variables"),
            ({"penalty_weights": np.full(12, 2.0), "cardinality": 3}, "penalty_weights has no effect on a cardinality"),
            ({"groups": GROUPS, "constraint": "orthogonal"}, "groups excludes constraint=.orthogonal."),
            ({"groups": GROUPS, "cardinality": 7}, "a component uses between 1 and 6 groups"),
            ({"penalty_weights": -np.ones(12)}, "penalty_weights holds -1.0 for 0; weights are finite"),
            ({"penalty_weights": ["a"] * 12}, "penalty_weights holds 'a' for 0"),
            ({"penalty_weights": {1: -2.0}}, "penalty_weights holds -2.0 for 1"),
            ({"penalty_weights": {99: 2.0}, "groups": GROUPS}, "names column 99, .* no group has this label either"),
            ({"penalty_weights": {"a": 2.0, 1: 3.0}, "groups": {0: "a", 1: "a"}}, "names 1 and its group, 'a'"),
            ({"penalty_weights": np.ones(5)}, "penalty_weights has 5 entries, but there are 12 variables"),
            ({"penalty_weights": 2.0}, "penalty_weights=2.0: one non-negative number per variable"),
            ({"penalty_weights": np.zeros(12)}, "penalty_weights are all zero"),
            ({"budget": 3, "penalty": "l1", "penalty_weights": np.ones(12)}, "budget=3 excludes penalty='l1'"),
            ({"budget": 3}, "budget limits a sum of costs; give those of the variables, penalty_weights"),
            ({"budget": 3, "gamma": 0.1}, "gamma and budget are set together"),
            ({"budget": 1, "penalty_weights": COSTS}, "budget=1.0 pays for nothing; variables cost 2"),
            ({"budget": 5, "penalty_weights": COSTS, "include": [1, 2]}, r"a cost of 7 \(1, 2\), and budget=5"),
        ],
    )
    def test_rules_that_cannot_hold_are_refused(self, rules, sentence):
        level = {} if rules.keys() & {"l1_bound", "penalty_weights", "budget"} else {"cardinality": 3}
        with pytest.raises(ValueError, match=sentence):
            GPower(2, **level | rules).fit(make_table() * (np.arange(12) != 11))

    def test_a_name_that_does_not_exist_is_compared_with_similar_ones(self):
        with pytest.raises(ValueError, match="'gene77', but no variable has this name; similar names are 'gene7'"):
            GPower(1, exclude=["gene77"]).fit(make_frame())


class TestOtherFunctions:
    @pytest.mark.parametrize(
        "rules",
        [
            {"groups": GROUPS, "include": [5], "exclude": np.array([1])},
            {"groups": {0: "a", 1: "a", np.int64(2): "b", 3: "b"}, "include": {1}, "exclude": range(5, 7)},
        ],
    )
    def test_a_loaded_model_fits_as_the_saved_one(self, rules, reload):
        model = GPower(1, cardinality=2, **rules).fit(make_table())
        np.testing.assert_array_equal(reload(model).fit(make_table()).components_, model.components_)

    @pytest.mark.parametrize(
        "rules",
        [
            {"groups": {3: "a", 4: "a", "3": "b"}, "include": [3, "4"], "cardinality": 3},
            {"penalty_weights": {3: 2.0, "3": 0.5}, "gamma": 0.1},
            {"groups": GROUPS, "penalty_weights": {np.int64(0): 2.0, 3: 0.1}, "gamma": 0.1},
        ],
    )
    def test_column_numbers_stay_numbers_where_names_are_numbers_too(self, rules, reload):
        X = pd.DataFrame(make_table(3), columns=[str(j) for j in range(11, -1, -1)])
        model = GPower(1, **rules).fit(X)
        again = reload(model)
        grid = {"gammas": [0.2, 0.1]} if "gamma" in rules else {"cardinalities": [3, 4]}
        words = {word: given for word, given in rules.items() if word not in ("gamma", "cardinality")}
        path = reload(sparsity_path(X, **grid, **words))
        for word, given in words.items():
            expected = given.tolist() if isinstance(given, np.ndarray) else given
            assert getattr(again, word) == path.params[word] == expected
        assert again.groups_used() == model.groups_used()
        np.testing.assert_array_equal(again.fit(X).components_, model.components_)

    @pytest.mark.parametrize(
        ("word", "values", "level"),
        [("groups", GROUPS, {"cardinality": 2}), ("penalty_weights", np.linspace(1, 2, 12), {"gamma": 0.1})],
    )
    def test_a_series_by_name_is_put_in_order(self, word, values, level, reload):
        X, shuffled = make_frame(2), pd.Series(values, index=NAMES).sample(frac=1, random_state=0)
        model = GPower(1, **level, **{word: shuffled}).fit(X)
        expected = GPower(1, **level, **{word: values}).fit(X)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
        np.testing.assert_array_equal(reload(model).fit(X).components_, model.components_)
        by_position = pd.Series(values, index=np.arange(12)[::-1])
        assert getattr(reload(model.set_params(**{word: by_position}).fit(make_table(2))), word) == values.tolist()

    @pytest.mark.parametrize("form", ["list", "NaN", "categorical", "series", "nullable series"])
    def test_a_variable_without_a_label_is_in_no_group(self, form, reload):
        X = make_frame(2)
        labels = [*"aabb", None, *"cccc", None, *"dd"]
        groups = {
            "list": labels,
            "NaN": [float("nan") if label is None else label for label in labels],
            "categorical": pd.Categorical(labels),
            "series": pd.Series(pd.Categorical(labels), index=NAMES),
            "nullable series": pd.Series(labels, index=NAMES, dtype="string"),
        }[form]
        by_name = {name: label for name, label in zip(NAMES, labels, strict=True) if label is not None}
        expected = GPower(2, cardinality=2, groups=by_name).fit(X)
        model = GPower(2, cardinality=2, groups=groups).fit(X)
        np.testing.assert_array_equal(model.components_, expected.components_)
        alone = GPower(1, cardinality=1, groups=groups, include=["gene4"]).fit(X)
        assert support_of(alone.components_[0]) == {4}
        np.testing.assert_array_equal(reload(model).fit(X).components_, model.components_)

    def test_a_series_with_repeated_names_and_a_frame_are_refused(self):
        repeated = pd.Series([*"abc"], index=[NAMES[0], NAMES[1], NAMES[0]])
        with pytest.raises(ValueError, match=f"groups has more than one entry for '{NAMES[0]}'"):
            GPower(1, cardinality=2, groups=repeated).fit(make_frame())
        with pytest.raises(ValueError, match=r"penalty_weights is a table of shape \(3, 1\)"):
            GPower(1, gamma=0.1, penalty_weights=pd.DataFrame({"w": [1, 2, 3]}, index=NAMES[:3])).fit(make_frame())

    def test_a_path_runs_over_groups(self):
        path = sparsity_path(make_table(3), groups=GROUPS, include=[5])
        assert path.grid.tolist() == [1, 2, 3, 4, 5, 6]
        assert [count_groups(z) for z in path.loadings.toarray()] == [1, 2, 3, 4, 5, 6]
        assert path.loadings.toarray()[:, 5].all()
        assert np.all(np.diff(path.variance[:, 0]) >= -1e-12)

    def test_cross_validation_chooses_among_groups(self):
        X, labels = make_modules((80, 24), (slice(6), 2)), np.repeat(np.arange(8), 3)
        model = GPowerCV(1, groups=labels, exclude=[20], cv=3).fit(X)
        assert model.best_params_["cardinality"] == [2]
        assert support_of(model.components_[0]) == set(range(6))
        assert set(model.cv_results_["param_cardinality"]) == set(range(1, 9))

    def test_stability_counts_groups(self):
        chosen = stability_selection(make_table(4), cardinality=2, n_components=1, groups=GROUPS, n_subsamples=10)
        for g in range(6):
            assert np.ptp(chosen.frequency[0, g == GROUPS]) == 0

    def test_the_groups_of_a_component_by_their_labels(self):
        X = make_table(6) * np.r_[np.ones(5), 9.0, np.ones(6)]
        model = GPower(1, cardinality=2, groups=GROUPS).fit(X)
        assert model.groups_used()[0][0] == 2
        assert set(model.groups_used()[0]) == set(GROUPS[model.components_[0] != 0])
        some = GPower(1, cardinality=2, groups={0: "a", 1: "a"}, include=[0]).fit(X)
        assert some.groups_used() == [["x5", "a"]]
        assert GPower(1, cardinality=1).fit(X).groups_used() == [["x5"]]
        numbers = GPower(1, cardinality=2, groups={0: 5, 1: 5}, include=[0]).fit(X)
        assert numbers.groups_used() == [["x5", 5]]
        assert GPower(1, cardinality=1, groups=list("abcdefghijkl")).fit(X).groups_used() == [["f"]]


def test_groups_that_no_cost_names_cost_their_size():
    X, groups = np.random.default_rng(3).standard_normal((40, 12)), np.repeat(list("abc"), 4)
    some = GPower(1, budget=4, groups=groups, penalty_weights={"a": 4.0}).fit(X)
    assert some.groups_used() == GPower(1, budget=4, groups=groups, penalty_weights=np.ones(12)).fit(X).groups_used()
    assert some.cardinality_.tolist() == [4]
