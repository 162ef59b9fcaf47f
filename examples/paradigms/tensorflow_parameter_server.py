"""TensorFlow's ParameterServerStrategy, asynchronous: compared with one process.

TF_CONFIG says who is chief, ps and worker; the job's roles have these names.
"""

import tensorflow as tf
from sklearn.datasets import load_digits

STEPS, DIGITS = 60, load_digits()


def data() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(DIGITS.data / 16.0), tf.constant(DIGITS.target)


def loss_of(weights: tf.Tensor) -> tf.Tensor:
    images, labels = data()
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights)
    return tf.reduce_mean(losses)


def coordinate(cluster: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> float:
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((64, 10), tf.float64))

    @tf.function
    def step() -> None:
        images, labels = data()
        rows = tf.random.uniform([600], 0, len(images), tf.int32)
        with tf.GradientTape() as tape:
            scores = tf.gather(images, rows) @ weights
            answers = tf.gather(labels, rows)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(answers, scores)
            loss = tf.reduce_mean(losses)
        weights.assign_sub(0.5 * tape.gradient(loss, weights))

    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    return float(loss_of(tf.convert_to_tensor(weights)))


def train_alone() -> float:
    weights = tf.Variable(tf.zeros((64, 10), tf.float64))
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = loss_of(weights)
        weights.assign_sub(0.5 * tape.gradient(loss, weights))
    return float(loss_of(weights))


def main() -> None:
    tf.random.set_seed(1)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type != "chief":
        tf.distribute.Server(
            cluster.cluster_spec(), cluster.task_type, cluster.task_id, protocol="grpc", start=True
        ).join()
    together, alone = coordinate(cluster), train_alone()
    difference = max(0.0, together - alone)
    print(f"{STEPS} asynchronous steps: loss {together:.9f}", flush=True)
    print(f"one process: loss {alone:.9f}  difference {difference:.1e}", flush=True)
    if difference > 0.1 * alone:
        raise SystemExit("the loss is well above the one-process loss")


if __name__ == "__main__":
    main()
