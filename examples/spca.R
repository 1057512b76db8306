# Sparse principal components from R, under the words of mixOmics.
#
# Needs reticulate, and Python with gpower: Sys.setenv(RETICULATE_PYTHON = "/path/to/python") before it loads.
#   source("spca.R")
#   fit <- spca(iris[, 1:4], ncomp = 2, keepX = c(2, 2))
#   fit$loadings   # variable, component, loading: a row for every variable that is used
#   fit$variates   # sample, comp1, comp2, ...: a row for every sample
#   fit$explained  # component, keepX, proportion, cumulative

suppressPackageStartupMessages(library(reticulate))

# X: data frame or matrix, samples in rows. keepX: variables per component; by default all of them, which is PCA.
# center and scale are TRUE or FALSE; scale = TRUE is the default here, as in mixOmics. Further arguments, such as
# positive = TRUE or deflation = "projection", go to GPower as they are.
spca <- function(X, ncomp = 2, keepX = rep(ncol(X), ncomp), center = TRUE, scale = TRUE, ...) {
  X <- .numbers(X)
  if (length(keepX) == 1) keepX <- rep(keepX, ncomp)
  model <- .gpower()$GPower(
    as.integer(ncomp), cardinality = as.list(as.integer(keepX)), center = center, scale = scale, ...
  )
  .told(model$fit(unname(X)), X)
}

# The numbers of variables by cross-validation, as tune.spca: choice.keepX are tried, one component after the other.
tune.spca <- function(X, ncomp = 2, test.keepX = NULL, folds = 5, center = TRUE, scale = TRUE, rule = "best",
                      criterion = "sparseness") {
  X <- .numbers(X)
  grid <- if (!is.null(test.keepX)) as.list(as.integer(test.keepX))
  search <- .gpower()$GPowerCV(
    as.integer(ncomp), cardinalities = grid, cv = as.integer(folds), center = center, scale = scale, rule = rule,
    criterion = criterion
  )
  search$fit(unname(X))
  fit <- .told(search$best_estimator_, X)
  fit$choice.keepX <- fit$explained$keepX
  fit
}

.gpower <- function() import("gpower", delay_load = FALSE)

.numbers <- function(X) {
  words <- if (is.data.frame(X)) names(X)[!vapply(X, is.numeric, logical(1))]
  if (length(words)) stop("Not numbers: ", paste(words, collapse = ", "), ". Leave these columns out.", call. = FALSE)
  X <- as.matrix(X)
  storage.mode(X) <- "double"
  if (is.null(colnames(X))) colnames(X) <- paste0("V", seq_len(ncol(X)))
  if (is.null(rownames(X))) rownames(X) <- seq_len(nrow(X))
  X
}

.told <- function(model, X) {
  Z <- as.matrix(model$components_)  # components in rows
  used <- which(Z != 0, arr.ind = TRUE)
  loadings <- data.frame(
    variable = colnames(X)[used[, 2]], component = factor(used[, 1], labels = .labels(nrow(Z))), loading = Z[used]
  )
  scores <- as.matrix(model$transform(unname(X)))
  colnames(scores) <- .labels(nrow(Z))
  share <- as.numeric(model$explained_variance_ratio_)
  list(
    loadings = loadings[order(loadings$component, -abs(loadings$loading)), ],
    variates = data.frame(sample = rownames(X), scores, row.names = NULL),
    explained = data.frame(
      component = .labels(nrow(Z)), keepX = as.integer(rowSums(Z != 0)), proportion = share, cumulative = cumsum(share)
    ),
    model = model
  )
}

.labels <- function(n) paste0("comp", seq_len(n))
