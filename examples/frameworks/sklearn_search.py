"""scikit-learn: a grid search over joblib's processes, compared with the same in one process.

joblib takes as many cores as the job has: LOKY_MAX_CPU_COUNT is set from `resources.cpu`.
"""

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV


def search(jobs: int) -> np.ndarray:
    digits = load_digits()
    grid = {"C": [0.01, 0.1, 1.0]}
    model = LogisticRegression(max_iter=200)
    found = GridSearchCV(model, grid, cv=3, n_jobs=jobs).fit(digits.data / 16.0, digits.target)
    return found.cv_results_["mean_test_score"]


def main() -> None:
    scores, alone = search(-1), search(1)
    difference = np.abs(scores - alone).max()
    print(f"{joblib.cpu_count()} processes: best accuracy {scores.max():.9f}")
    print(f"one process: best accuracy {alone.max():.9f}  difference {difference:.1e}")
    if difference > 1e-9:
        raise SystemExit("the search differs from the one-process search")


if __name__ == "__main__":
    main()
