"""Train a small network on scikit-learn's digits with the parameters of one trial."""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import headrace.client as headrace


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.25, random_state=0
    )
    network = MLPClassifier((options.hidden,), learning_rate_init=options.lr, random_state=0)
    for epoch in range(options.epochs):
        network.partial_fit(train_x, train_y, classes=range(10))
        print(f"epoch {epoch} loss {network.loss_:.4f}", flush=True)
    accuracy = network.score(test_x, test_y)
    headrace.report(accuracy=accuracy)  # what the sweep's trials are compared by
    print(f"accuracy {accuracy:.4f} lr {options.lr:g} hidden {options.hidden}")


if __name__ == "__main__":
    main()
